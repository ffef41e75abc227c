"""What a stream wrote."""
