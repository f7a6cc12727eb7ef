"""Replicated machines that live on a partition: groups and, later, transactions."""
