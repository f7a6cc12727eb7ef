"""Workers that share connectors: what they agree on is in topics, in Kafka Connect's own formats."""
