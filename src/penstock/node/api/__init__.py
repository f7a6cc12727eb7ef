"""What a node serves: a table of handlers for each role, and what they have in common."""
