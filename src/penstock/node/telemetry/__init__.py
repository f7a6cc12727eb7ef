"""Metrics that clients push (KIP-714): who is asked for which, what they send, and what is kept of it."""
