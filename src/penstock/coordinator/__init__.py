"""Replicated machines that live on a partition: groups, and later transactions and share state.

`machine.py` is what they have in common, and what the node that runs them needs of them; `shards` has the machines.
"""
