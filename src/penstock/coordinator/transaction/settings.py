"""What the operator may set about transactions, by Kafka's defaults."""

from penstock.protocol.value import Value


class TransactionSettings(Value):
    """The comment names Kafka's key where it is not the field's own name."""

    abort_interval_ms: int = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms
    write_timeout_ms: int = 5_000  # offsets.commit.timeout.ms: how long a write may take to be committed
    longest_wait_ms: int = 100  # add.partitions.to.txn.retry.backoff.max.ms
    retry_backoff_ms: int = 20  # the first pause before markers that were refused are sent again
    retry_backoff_max_ms: int = 1_000  # the longest
    at_once: int = 100  # ids that are looked at before the loop goes on
