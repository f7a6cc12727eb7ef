"""A worker that has its connectors for itself, by Kafka's `connect-standalone.properties`."""
