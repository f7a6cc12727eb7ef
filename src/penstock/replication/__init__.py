"""One partition, as its leader and as its followers see it."""
