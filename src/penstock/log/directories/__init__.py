"""Directories of logs: what lies in them, whether they are formatted and whole, and which logs are opened."""
