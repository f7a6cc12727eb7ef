"""Several partitions that share one log of the consensus core: what goes into that log, and who decides it."""
