"""What a share group gives up becomes a dead letter in another topic, at whichever broker that is led (KIP-1191)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.on_disk import Node, topic_records
from tests.unit.node.sharing.member import EARLIEST, REJECT, RELEASE, Member
from tests.unit.node.sharing.stand_in import COORDINATOR, StandIn, sharing_node
from tests.unit.node.sharing.test_share_progress import described
from tests.unit.node.turns import until

from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.records import ConfigRecord, PartitionRecord
from penstock.metadata.resources import ResourceType
from penstock.node.sharing.dead_letters import JITTER, DeadLetterWriter
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_acknowledge
from penstock.sharing.dead_letters import Cause, DeadLetter
from penstock.sharing.in_flight import RecordState

LETTERS = "dlq.orders"
OF_GROUP = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"


def of_group(name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.GROUP, resource_name="g", name=name, value=value)


@asynccontextmanager
async def letters_at_another_broker(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    enabled: str = "true",
    left: dict[int, tuple[int, int]] | None = None,
    group: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Node, StandIn, Member]]:
    """The member has fetched three records, but those that are `left` by a leader before, with state and count."""
    monkeypatch.setattr("penstock.node.sharing.dead_letters.FIRST_PAUSE_S", 0)
    async with sharing_node(directory) as (node, stand_in):
        node.image.features[SHARE_VERSION] = 2
        there = [COORDINATOR]
        made = topic_records(
            LETTERS,
            topic_id=UUID(int=98),
            partitions=2,
            leader=COORDINATOR,
            errors_deadletterqueue_group_enable=enabled,
        )
        for record in made:
            is_partition = isinstance(record, PartitionRecord)
            node.commit(record.replace(replicas=there, isr=there) if is_partition else record)
        for name, value in {OF_GROUP: LETTERS, **(group or {})}.items():
            node.commit(of_group(name, value))
        node.commit(EARLIEST)
        if left is not None:
            stand_in.batches, stand_in.start_offset = left, 0
        node.produce(b"a", b"b", b"c")
        ann = Member(node)
        await ann.fetch()
        yield node, stand_in, ann


async def rejects(ann: Member, first: int, last: int, reason: str = "") -> None:
    layout = share_acknowledge
    batch = layout.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[REJECT], reason=reason)
    partition = layout.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    topic = ann.fetch_request().topics[0].topic_id
    topics = [layout.AcknowledgeTopic(topic_id=topic, partitions=[partition])]
    assert await ann.acknowledge(topics=topics) == ErrorCode.NONE


def archived(stand_in: StandIn) -> list[int]:
    return [at for at, (state, _) in sorted(stand_in.batches.items()) if state == RecordState.ARCHIVED]


async def test_a_rejected_record_has_a_letter_that_says_why_and_is_archived_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch) as (_, stand_in, ann):
        await rejects(ann, 1, 1, "no such customer")
        await until(lambda: archived(stand_in) == [1])
        ((partition, letter),) = stand_in.letters
        headers = {name: (value or b"").decode() for name, value in letter.headers}
        assert (partition, letter.key, letter.value) == (0, None, None)
        assert int(headers.pop("penstock-dlq-first-failure-at")) > 0
        assert headers == {
            "__dlq.errors.topic": "orders",
            "__dlq.errors.partition": "0",
            "__dlq.errors.offset": "1",
            "__dlq.errors.group": "g",
            "__dlq.errors.delivery.count": "1",
            "__dlq.errors.message": "Offset rejected by client.",
            "penstock-dlq-reason": "no such customer",
            "penstock-dlq-first-failure": "rejected: no such customer",
        }
        assert [it.state_batches[0].delivery_state for it in stand_in.written] == [3, 4], "ARCHIVING is written first"


@pytest.mark.parametrize(("first", "values"), [(0, [b"a", b"b", b"c"]), (2, [b"c"])])
async def test_letters_are_copies_where_the_group_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, values: list[bytes]
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch, group={COPIES: "true"}) as (_, stand_in, ann):
        await rejects(ann, first, 2)
        await until(lambda: archived(stand_in) == list(range(first, 3)))
        assert [letter.value for _, letter in stand_in.letters] == values


async def test_what_the_log_has_no_longer_keeps_no_copy_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch, group={COPIES: "true"}) as (node, stand_in, _):
        (shared,) = node.broker.sharing._led.values()
        shared.partition.log.advance_log_start(1)
        node.broker.sharing._letters.bury(shared, [DeadLetter(0, 2, 1, Cause.REJECTED, None)])
        await until(lambda: len(stand_in.letters) == 3)
        assert [letter.value for _, letter in stand_in.letters] == [None, b"b", b"c"]


async def test_letters_that_are_due_in_another_order_are_copies_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch, group={COPIES: "true"}) as (node, stand_in, _):
        (shared,) = node.broker.sharing._led.values()
        due = [DeadLetter(offset, offset, 1, Cause.REJECTED, None) for offset in (2, 0, 1)]
        node.broker.sharing._letters.bury(shared, due)
        await until(lambda: len(stand_in.letters) == 3)
        assert [letter.value for _, letter in stand_in.letters] == [b"a", b"b", b"c"]


async def test_what_could_not_be_written_is_tried_again_and_may_be_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch) as (node, stand_in, ann):
        stand_in.not_produced += [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
        await rejects(ann, 0, 0)
        await until(lambda: archived(stand_in) == [0])
        ((_, letter),) = stand_in.letters
        assert ("penstock-dlq-may-repeat", b"true") in letter.headers
        counted = node.broker.sharing._letters.counted
        assert (counted.requests["g"], counted.records["g"], counted.failed["g"]) == (3, 1, 0)


@pytest.mark.parametrize(
    ("refusals", "requests"), [([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 9, 5), ([ErrorCode.MESSAGE_TOO_LARGE], 1)]
)
async def test_a_record_without_a_letter_is_archived_in_the_end_and_the_log_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusals: list[ErrorCode],
    requests: int,
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch) as (node, stand_in, ann):
        stand_in.not_produced += refusals
        await rejects(ann, 0, 1)
        await until(lambda: archived(stand_in) == [0, 1])
        assert not stand_in.letters
        (line,) = [it.getMessage() for it in caplog.records if it.levelno == logging.ERROR]
        assert "2 records of orders-0 from offset 0 on were given up without a dead letter" in line
        assert node.broker.sharing._letters.counted.requests["g"] == requests


async def test_a_topic_that_is_not_for_dead_letters_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch, enabled="false") as (_, stand_in, ann):
        await rejects(ann, 0, 0)
        await rejects(ann, 1, 1)
        await until(lambda: archived(stand_in) == [0, 1])
        assert not stand_in.letters
        assert caplog.text.count("set its errors.deadletterqueue.group.enable=true") == 1, "not with each record"


async def test_below_its_level_there_are_no_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with letters_at_another_broker(tmp_path, monkeypatch) as (node, stand_in, ann):
        node.image.features[SHARE_VERSION] = 1
        await ann.fetch(max_wait_ms=0)
        await rejects(ann, 0, 0)
        assert archived(stand_in) == [0]
        assert not stand_in.letters


async def test_a_leader_that_takes_over_writes_what_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = {0: (int(RecordState.ARCHIVING), 2)}
    async with letters_at_another_broker(tmp_path, monkeypatch, left=left) as (_, stand_in, _):
        await until(lambda: archived(stand_in) == [0])
        ((_, letter),) = stand_in.letters
        assert ("penstock-dlq-may-repeat", b"true") in letter.headers


async def test_too_many_letters_pause_deliveries_until_another_rate_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rate = {"share.deadletter.max.rate": "1"}
    async with letters_at_another_broker(tmp_path, monkeypatch, group=rate) as (node, stand_in, ann):
        await rejects(ann, 0, 1)
        await ann.acknowledge((2, 2, [RELEASE]))
        assert await ann.acquire(max_wait_ms=0) == []
        assert "deliveries of orders-0 pause for 90 s" in caplog.text
        shown = {it.name: it for it in node.broker.metrics}
        assert list(shown["DeliveriesPaused"].samples()) == [(("g", "orders", 0), 1)]
        assert 89_000 < described(node).pause_ms <= 90_000
        node.commit(of_group("share.deadletter.max.rate", "50"))
        assert await ann.acquire() == [(2, 2, 2)]
        assert described(node).pause_ms == -1
        await until(lambda: len(stand_in.letters) == 2)


@pytest.mark.parametrize(("attempt", "pause_s"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (60, 30)])
@pytest.mark.parametrize("lot", [-JITTER, 0, JITTER])
def test_pauses_double_up_to_the_longest_and_are_not_all_the_same(attempt: int, pause_s: float, lot: float) -> None:
    writer: Any = SimpleNamespace(_random=SimpleNamespace(uniform=lambda least, most: min(max(lot, least), most)))
    assert DeadLetterWriter._pause_s(writer, attempt) == pytest.approx(pause_s * (1 + lot))
