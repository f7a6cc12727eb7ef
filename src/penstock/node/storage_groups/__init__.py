"""Storage groups on a node: partitions of several topics that share one log of the consensus core (decision 0309)."""
