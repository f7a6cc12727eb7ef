"""Nodes on this machine: several at once, their directories, simulated ones."""
