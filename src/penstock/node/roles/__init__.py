"""What handlers see of a node: its broker and its controller."""
