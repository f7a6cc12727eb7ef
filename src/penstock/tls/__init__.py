"""TLS by Kafka's keys, for nodes, their clients and workers: keys and certificates, and the layer over a connection."""
