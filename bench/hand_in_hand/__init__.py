"""Penstock and Apache Kafka over the same directories and in the same quorum: each goes on with what the other left."""
