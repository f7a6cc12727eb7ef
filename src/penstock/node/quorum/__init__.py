"""The consensus core at work: its log, snapshots and state on the disk, its peers on the wire, and what it drives.

Nothing here knows what is replicated.
"""
