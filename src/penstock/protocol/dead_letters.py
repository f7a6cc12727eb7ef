"""What dead letters say in their headers: of a record that a share group has given up (KIP-1191).

The names with `__dlq` are Kafka's. A letter has the record's key and value where the group copies records
(`errors.deadletterqueue.copy.record.enable`), and then the record's own headers before these.
"""

from typing import Final

from penstock.protocol.delayed import CANCEL, DELAY, DELAY_ID, DELIVER_AT, NOW

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
"""Whether the record was rejected, or delivered too often."""

REASON: Final = "penstock-dlq-reason"
"""What the member said that rejected it, or released it last."""
FIRST_FAILURE: Final = "penstock-dlq-first-failure"
"""How its first delivery that failed ended."""
FIRST_FAILURE_AT: Final = "penstock-dlq-first-failure-at"
"""When that was: ms since 1970, in decimal digits."""
MAY_REPEAT: Final = "penstock-dlq-may-repeat"
"""There may be another letter of the same record, as a leader or a connection was lost while this one was written."""
REDRIVEN: Final = "penstock-dlq-redriven"
"""Not of a letter, but of a record that was sent back to its topic: where its letter is, as topic-partition-offset."""

_PREFIXES: Final = "__dlq.errors.", "penstock-dlq-"
_ORDERS: Final = frozenset({DELIVER_AT, DELAY, DELAY_ID, CANCEL, NOW})
"""What a topic that delays records obeys: a record that was delivered has had its time."""


def own_headers(headers: list[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Those that a record had before it was a dead letter, but for what would have a copy wait, or cancel another."""
    return [(name, value) for name, value in headers if not name.startswith(_PREFIXES) and name not in _ORDERS]
