"""Connectors: what moves records between Kafka's topics and the rest of the world, as in Kafka Connect, in Python."""
