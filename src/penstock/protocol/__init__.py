"""The wire format: bytes in, objects out."""
