"""Connections to a cluster: admin, fetch, produce, group membership."""
