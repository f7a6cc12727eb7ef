"""What a node gets from outside: chance, the disk, clocks, the event loop and its own process for compaction."""
