"""What a pipeline is, and how it is read from a file."""
