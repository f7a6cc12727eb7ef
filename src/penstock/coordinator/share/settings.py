"""What the operator may set about the share coordinator, by Kafka's defaults."""

from penstock.protocol.value import Value


class ShareCoordinatorSettings(Value):
    """The comment names Kafka's key where it is not the field's own name."""

    updates_per_snapshot: int = 500  # share.coordinator.snapshot.update.records.per.snapshot
    cold_interval_ms: int = 300_000  # share.coordinator.cold.partition.snapshot.interval.ms
    prune_interval_ms: int = 300_000  # share.coordinator.state.topic.prune.interval.ms
    write_timeout_ms: int = 5_000  # share.coordinator.write.timeout.ms
    at_once: int = 100  # states that are looked at, or written by one batch, before the loop goes on
