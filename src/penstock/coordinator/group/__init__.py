"""Groups and the offsets that they commit: what all kinds of groups have in common. Each kind has a folder of its own.

`GroupShard` (`coordinator/shards/groups.py`) is the way in. Membership of the classic protocol is volatile and waits,
so it is a protocol machine: a method per event, effects come back. Offsets, the persisted form of a group, and all of
a consumer group are a replicated machine: records are decided, applied to the image (`image.py`), and told of once
they are committed.
"""
