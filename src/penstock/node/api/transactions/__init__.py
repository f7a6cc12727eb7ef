"""What brokers do for transactions on the partitions that they lead; loaded when the first request asks for it."""
