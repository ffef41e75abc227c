"""A join compared with a stream's."""
