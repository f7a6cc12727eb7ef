"""What the headers of produced records ask for where a topic has `penstock.delay.enable`: which of them have to wait.

| header                                           | what becomes of the record                                       |
| ------------------------------------------------ | ---------------------------------------------------------------- |
| none of these, or a time that has come           | it is written as it came                                         |
| `penstock-deliver-at`, `penstock-delay`          | it waits until it is due                                         |
| `penstock-delay-id`                              | what waits under the id gives way to it                          |
| the same and `penstock-delay-cancel`, no value   | what waits under the id goes, and this one is not delivered      |
| the same and `penstock-delay-now`, no value      | what waits under the id is due now, and this one is not delivered|
| one of them twice, unreadable or too far ahead   | INVALID_RECORD for the batch, which names the record             |

A batch is held as a whole, or written as a whole. What is held and due already comes with the next that is due.
"""

from penstock.log.config import LogConfig
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.delayed import (
    CANCEL,
    CANCELS,
    DELAY,
    DELAY_ID,
    DELIVER_AT,
    HASTENS,
    NO_ID,
    NOW,
    OWN_PLACE,
    Row,
    hash_of,
    hold,
    size_of,
)
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, iterate_records

MOST_DIGITS = 15
MOST_ID_BYTES = 1_024
MOST_RECORDS = 10_000
"""Of a batch in such a topic: as many as librdkafka sends by default."""
_NAMES = frozenset((CANCEL, DELAY, DELAY_ID, DELIVER_AT, NOW))


class RefusedRecordsError(Exception):
    """Each with its place in the batch and why."""

    def __init__(self, errors: list[tuple[int, str]]) -> None:
        super().__init__(f"{len(errors)} records")
        self.errors = errors


class _RefusedRecordError(Exception):
    """The text says why."""


def held_back(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, *, max_bytes: int, most_errors: int
) -> tuple[memoryview, BatchHeader]:
    """The batch that is to be written: the one that came, or one that holds it. Raises KafkaError and
    RefusedRecordsError.
    """
    if header.record_count > MOST_RECORDS:
        text = f"a batch of {header.record_count} records; where they may wait, {MOST_RECORDS} may come at once"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
    rows: list[Row] = []
    sizes: list[int] = []
    refused: list[tuple[int, str]] = []
    for number, record in enumerate(iterate_records(batch, 0, header, max_bytes=max_bytes)):
        sizes.append(size_of(record))
        try:
            rows.append(_row(record, config, now_ms))
        except _RefusedRecordError as error:
            if len(refused) < most_errors:
                refused.append((number, str(error)))
    first = next((number for number, row in enumerate(rows) if row.id or row.due_ms > now_ms), None)
    if first is not None and not refused and (largest := max(sizes)) > config.max_message_bytes:
        cause = f"of {largest} bytes, unpacked, it cannot wait: max.message.bytes allows {config.max_message_bytes}"
        refused.append((sizes.index(largest), cause))
    if refused:
        raise RefusedRecordsError(refused)
    if first is None:
        return batch, header
    held = memoryview(hold(batch, header, rows, now_ms=now_ms, unpacked_bytes=sum(sizes)))
    return held, read_header(held)


def _row(record: Record, config: LogConfig, now_ms: int) -> Row:
    if config.penstock_delay_ms:
        return Row(OWN_PLACE, now_ms + config.penstock_delay_ms, NO_ID)
    asked: dict[str, bytes | None] = {}
    for name, value in record.headers:
        if name in _NAMES:
            if name in asked:
                raise _RefusedRecordError(f"it has the header {name} twice")
            asked[name] = value
    if not asked:
        return Row(OWN_PLACE, now_ms, NO_ID)
    id_ = _id(asked)
    order = _order(asked, record)
    return Row(OWN_PLACE, _due_ms(asked, config, now_ms) if order is None else order, id_)


def _id(asked: dict[str, bytes | None]) -> int:
    if DELAY_ID not in asked:
        return NO_ID
    text = asked[DELAY_ID]
    if not text or len(text) > MOST_ID_BYTES:
        raise _RefusedRecordError(f"the header {DELAY_ID} has 1 to {MOST_ID_BYTES} bytes")
    return hash_of(text)


def _order(asked: dict[str, bytes | None], record: Record) -> int | None:
    """None for a record that is to be delivered."""
    orders = [name for name in (CANCEL, NOW) if name in asked]
    if not orders:
        return None
    if len(asked) != 2 or DELAY_ID not in asked or record.value is not None:
        raise _RefusedRecordError(
            f"with the header {orders[0]} a record has {DELAY_ID}, no other of these, and no value"
        )
    return CANCELS if orders[0] == CANCEL else HASTENS


def _due_ms(asked: dict[str, bytes | None], config: LogConfig, now_ms: int) -> int:
    if DELIVER_AT in asked and DELAY in asked:
        raise _RefusedRecordError(f"it has {DELIVER_AT} and {DELAY}: one of them says when it is due")
    if DELIVER_AT in asked:
        due_ms = _number(DELIVER_AT, asked[DELIVER_AT])
    elif DELAY in asked:
        due_ms = now_ms + _number(DELAY, asked[DELAY])
    else:
        return now_ms
    if due_ms > now_ms + config.penstock_delay_max_ms:
        raise _RefusedRecordError(
            f"it is due in {due_ms - now_ms} ms, penstock.delay.max.ms allows {config.penstock_delay_max_ms}"
        )
    return max(due_ms, now_ms)


def _number(name: str, text: bytes | None) -> int:
    if text is None or not text.isdigit() or len(text) > MOST_DIGITS:
        shown = "nothing" if text is None else repr(text[:MOST_DIGITS])
        raise _RefusedRecordError(f"the header {name} is {shown}, not ms in 1 to {MOST_DIGITS} decimal digits")
    return int(text)
