"""The driver of a storage group: partitions of several topics that share one log of the consensus core.

No broker uses it yet: no request reaches it, and no topic can ask for it (decision 0309).
"""
