"""The partitions that this node holds: their logs, readers and writers, and their upkeep."""
