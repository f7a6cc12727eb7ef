"""What runs connectors, whether workers share them or one has them all: what is known, and what follows from it."""
