"""The group coordinator's machine: membership and rebalances of classic groups, and the offsets that groups commit.

`GroupShard` (shard.py) is the way in: one shard for each partition of `__consumer_offsets` that a node leads.
Membership is volatile and waits, so it is a protocol machine: a method per event, effects come back. Offsets and the
persisted form of a group are a replicated machine: what is decided goes out as an `Append`, and counts once committed.
"""
