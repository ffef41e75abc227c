"""Great Expectations as the gate before publishing: checks, their evaluation and their pages."""
