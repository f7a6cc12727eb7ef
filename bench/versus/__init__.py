"""Side by side: Penstock, Apache Kafka and a bare loop of the same system calls, in turn, in one run."""
