"""Raft as a library: a Python program replicates its own state machine (`docs/raft.md`)."""
