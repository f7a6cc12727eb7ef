"""What a node tells monitoring, if it has a listener for it: its figures, whether it lives, whether it is ready."""
