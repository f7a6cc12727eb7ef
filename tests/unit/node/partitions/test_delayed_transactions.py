"""Records of transactions that wait: from the commit on, and never if it is aborted."""

import pytest
from tests.unit.node.partitions.test_delayed import Headers, One, in_days, one

from penstock.log.config import DAY_MS
from penstock.node.partitions import delayed
from penstock.protocol.control.records import ControlType
from penstock.replication.delayed import machine

__all__ = ["one"]

SOON: Headers = [("penstock-delay", b"100")]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_transaction_sent_waits_from_its_commit_on(one: One, restarts: bool) -> None:
    one.send_in_transaction(b"a", b"b", headers=SOON)
    one.run(5_000)
    assert one.waiting()[0] == 0
    assert one.values() == []
    if restarts:
        one.restart()
    one.end(ControlType.COMMIT)
    one.send_in_transaction(b"c", headers=SOON, producer=8)
    one.end(ControlType.COMMIT, producer=8)
    one.run()
    assert one.values() == [b"a", b"b"], "the others are due"
    assert one.waiting()[0] == 1
    one.run(100)
    assert one.values() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_aborted_never_comes(one: One, restarts: bool) -> None:
    one.send_in_transaction(b"a", headers=SOON)
    one.end(ControlType.ABORT)
    one.send_in_transaction(b"b", headers=SOON)
    if restarts:
        one.restart()
    one.run(5_000)
    one.end(ControlType.COMMIT)
    one.run(5_000)
    assert one.values() == [b"b"]
    partition = one.host.partition
    assert partition is not None
    assert partition.needed_from == one.host.log.log_end_offset, "nothing waits"


def test_a_transaction_cancels_and_replaces_once_it_is_committed(one: One) -> None:
    for id_ in (b"x", b"y"):
        one.send(id_, headers=[*SOON, ("penstock-delay-id", id_)])
    one.send_in_transaction(None, headers=[("penstock-delay-id", b"x"), ("penstock-delay-cancel", b"")])
    one.end(ControlType.ABORT)
    one.send_in_transaction(None, headers=[("penstock-delay-id", b"y"), ("penstock-delay-cancel", b"")])
    one.send_in_transaction(b"z", headers=[*SOON, ("penstock-delay-id", b"z")])
    one.end(ControlType.COMMIT)
    one.run()
    one.send(b"instead of z", headers=[*SOON, ("penstock-delay-id", b"z")])
    one.run(5_000)
    assert one.values() == [b"x", b"instead of z"]


def test_the_log_keeps_what_an_open_transaction_holds(one: One) -> None:
    one.send(b"before")
    at = one.send_in_transaction(b"a", headers=in_days(1))
    one.send(b"behind", headers=in_days(1))
    one.run()
    partition = one.host.partition
    assert partition is not None
    partition.delete_before(one.host.log.log_end_offset)
    one.run()
    one.run(delayed.COMMIT_MS)
    assert 0 < one.host.log.log_start_offset <= at
    one.end(ControlType.COMMIT)
    one.run()
    one.run(delayed.COMMIT_MS)
    assert one.host.log.log_start_offset > at
    one.restart()
    one.run(2 * DAY_MS)
    assert one.values() == [b"a", b"behind"]


def test_the_ends_of_many_transactions_are_taken_in_steps(one: One) -> None:
    producers = range(20, 40)
    for producer in producers:
        one.send_in_transaction(*[b"v"] * 200, headers=in_days(1), producer=producer)
    one.run()
    for producer in producers:
        one.end(ControlType.COMMIT, producer=producer)
    assert one.run() >= len(producers) * 200 * delayed.READ_RECORD // delayed.STEP_BYTES
    assert one.waiting()[0] == len(producers) * 200


@pytest.mark.parametrize("how", [ControlType.COMMIT, ControlType.ABORT])
def test_the_end_of_a_large_transaction_is_taken_in_steps(
    one: One, how: ControlType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "MOST_ROWS", 10)
    monkeypatch.setattr(delayed, "STEP_BATCHES", 1_000)
    values = [b"%d" % number for number in range(120)]
    for begin in range(0, 120, 3):
        one.send_in_transaction(*values[begin : begin + 3], headers=SOON)
    assert one.run(5_000) < 10
    one.end(how)
    assert one.run() >= (120 + 40) // 10 if how is ControlType.COMMIT else 40 // 10
    assert one.values() == (values if how is ControlType.COMMIT else [])


@pytest.mark.parametrize("how", [ControlType.ABORT, ControlType.COMMIT])
def test_the_log_is_needed_from_where_a_transaction_holds_until_nothing_of_it_waits(one: One, how: ControlType) -> None:
    held = one.send_in_transaction(b"later", b"too", headers=in_days(2))
    one.run()
    assert one.host.partition is not None
    delivery = one.host.partition.delivery
    assert delivery is not None
    assert delivery.needed_from <= held
    one.end(how)
    one.run()
    assert (delivery.needed_from <= held) == (how is ControlType.COMMIT)
    one.run(2 * DAY_MS)
    assert delivery.needed_from == one.host.log.log_end_offset
