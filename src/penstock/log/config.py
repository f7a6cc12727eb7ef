"""What a partition's log is told to do: the topic configs that the log obeys, with Kafka's names and defaults."""

from penstock.protocol.value import Value

INT64_MAX = (1 << 63) - 1
DAY_MS = 24 * 60 * 60 * 1000
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
PRODUCER = "producer"


class LogConfig(Value, kw_only=True):
    """One object serves all partitions that share the settings. Sizes are bytes, times are milliseconds, -1 means "no
    limit" where Kafka has it so. A whole log is removed after `log_delete_delay_ms`, which no topic sets.
    `validates_records`: a leader looks at every record of a batch. `first_sequence_is_zero`: where a log never held a
    record, a producer begins with no other.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    log_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_consumed: bool = False
    retention_consumed_grace_ms: int = 7 * DAY_MS
    producer_id_expiration_ms: int = DAY_MS
    validates_records: bool = False
    first_sequence_is_zero: bool = False
    penstock_delay_enable: bool = False
    penstock_delay_ms: int = 0
    penstock_delay_max_ms: int = 366 * DAY_MS

    @property
    def is_compacted(self) -> bool:
        """Every record needs a key. Not where records wait, whatever the default of all topics is: it would take with a
        record that was delivered the word that it waits no longer.
        """
        return "compact" in self.cleanup_policy and not self.penstock_delay_enable

    @property
    def longest_segment_ms(self) -> int:
        """The age at which a segment ends: a record that is to be compacted in time must not lie in the active one."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def uses_log_append_time(self) -> bool:
        return self.message_timestamp_type == LOG_APPEND_TIME
