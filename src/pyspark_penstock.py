"""Lets Spark find `format("penstock")` by itself."""
