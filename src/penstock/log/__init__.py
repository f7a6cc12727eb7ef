"""Segmented storage in Kafka's format; the only package that touches files."""
