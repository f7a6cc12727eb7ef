"""The partitions that this node holds: their logs, who reads and writes them, and their upkeep."""
