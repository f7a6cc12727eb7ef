"""Records about transactions are Kafka's, byte by byte; what is none is not taken for one."""

from __future__ import annotations

import pytest

from penstock.coordinator.transaction.records import TransactionRecord, decode_record
from penstock.coordinator.transaction.transaction import State, Transaction
from penstock.protocol.errors import DecodeError

KEY = bytes.fromhex("0000 0003 706179")
OPEN = Transaction(
    7, 3, 60_000, 1_000, State.ONGOING, {("t", 1): None, ("u", 0): None, ("t", 2): None}, 900, 6, 9, 4, 2, 2
)
ENDED = Transaction(7, 3, 60_000, 1_000, State.EMPTY, {}, -1, 7)
PLAIN = bytes.fromhex(
    "0000"  # the version
    "0000000000000007 0003 0000ea60 01"  # producer, time-out, state
    "00000002"
    "0001 74 00000002 00000001 00000002"  # t: 1, 2
    "0001 75 00000001 00000000"  # u: 0
    "00000000000003e8 0000000000000384"  # when it was changed, and began
)
FLEXIBLE = bytes.fromhex(
    "0001"
    "0000000000000007 0003 0000ea60 01"
    "03"
    "02 74 03 00000001 00000002 00"
    "02 75 02 00000000 00"
    "00000000000003e8 0000000000000384"
    "04 00 08 0000000000000006 01 08 0000000000000009"  # producers before and after
    "02 02 0002 03 02 0004"  # the client's version, the epoch after
)


@pytest.mark.parametrize(("version", "value"), [(0, PLAIN), (1, FLEXIBLE)], ids=["0", "1"])
def test_an_open_transaction(version: int, value: bytes) -> None:
    record = TransactionRecord("pay", OPEN, version)
    assert record.encode() == (KEY, value)
    found = decode_record(KEY, value)
    assert found is not None
    assert found.value is not None
    assert set(found.value.partitions) == set(OPEN.partitions)
    nothing = {"previous_producer_id": -1, "next_producer_id": -1, "next_producer_epoch": -1, "client_version": 0}
    only_1 = {} if version else nothing
    in_memory = {"last_epoch": -1, "partitions": found.value.partitions}
    assert found.value == OPEN.replace(**in_memory, **only_1)


def test_one_that_has_not_begun_has_no_partitions() -> None:
    key, value = TransactionRecord("pay", ENDED).encode()
    assert value == bytes.fromhex(
        "0001 0000000000000007 0003 0000ea60 00 00 00000000000003e8 ffffffffffffffff 01 00 08 0000000000000007"
    )
    found = decode_record(key, value)
    assert found is not None
    assert found.value == ENDED


def test_a_tombstone_takes_the_id_away() -> None:
    assert TransactionRecord("pay", None).encode() == (KEY, None)
    assert decode_record(KEY, None) == TransactionRecord("pay", None)


def test_other_kinds_of_keys_are_left_alone() -> None:
    assert decode_record(b"\x00\x01" + KEY[2:], None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (KEY[:-1], None),
        (KEY, b"\x00"),
        (KEY, b"\x00\x02" + PLAIN[2:]),
        (KEY, PLAIN[:-1]),
        (KEY, PLAIN[:16] + b"\x06" + PLAIN[17:]),
        (KEY, PLAIN[:16] + b"\x63" + PLAIN[17:]),
    ],
    ids=["no key", "half a key", "no version", "a later version", "half a value", "Dead", "no state"],
)
def test_what_is_no_record_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)
