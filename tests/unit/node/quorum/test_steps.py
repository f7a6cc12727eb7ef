"""Steps of a driver and of its metadata log: what is asked of whom, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.unit.node.quorum.kit import Kit
from tests.unit.node.quorum.memory import batch_of
from tests.unit.node.quorum.test_metadata_log import batch, election, opened, topic

from penstock.metadata.record_frames import decode_record
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import decode_batch
from penstock.raft.machine import Raft


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    kit = Kit()
    yield kit
    await kit.driver.stop()


async def test_where_a_node_listens_peers_know(kit: Kit) -> None:
    asked: list[Any] = []

    def endpoint_of(*words: object) -> str:
        asked.append(words)
        return "there"

    cast("Any", kit.peers).endpoint_of = endpoint_of
    assert kit.driver.endpoint_of(None) is None
    assert kit.driver.endpoint_of(None, "L") is None
    assert asked == []
    assert cast("Any", kit.driver.endpoint_of(0, "L")) == "there"
    assert cast("Any", kit.driver.endpoint_of(2)) == "there"
    assert asked == [(0, "L"), (2, None)]


async def test_a_log_that_cannot_be_let_go_of_ends_the_driver(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = await kit.lead()
    await kit.driver.append(batch_of(b"a"), epoch)
    error = OSError("the disk is gone")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Raft, "forget_log_behind", fail)
    chunks = kit.application.snapshot(kit.driver.quorum_at(2))
    with pytest.raises(OSError, match="gone"):
        await kit.driver.snapshot(chunks, 2)
    assert kit.failures == [error]
    assert not kit.driver.is_running


def test_who_waits_for_the_image_to_be_as_new_as_the_log_is_told_once() -> None:
    log, replicated, _ = opened()
    told: list[int] = []
    log.add_caught_up_listener(lambda: told.append(log.image.offset))
    log.committed(election(0), 0, 0)
    assert told == [], "no leader has said how long it is"
    replicated.told_high_watermark = 3
    log.committed(batch(1, topic("a")), 1, 1)
    assert told == []
    log.committed(batch(2, topic("b")), 2, 2)
    assert told == [2]
    log.committed(batch(3, topic("c")), 3, 3)
    assert told == [2]
    log.add_caught_up_listener(lambda: told.append(-log.image.offset))
    log.committed(election(4), 4, 4)
    assert told == [2, -4]


async def test_records_are_made_bytes_of_once() -> None:
    log, replicated, _ = opened()
    replicated.log_end_offset = 8
    appended: list[Any] = []
    cast("Any", replicated).append = lambda *words: appended.append(words)
    cast("Any", replicated).barrier = lambda epoch: appended.append(("barrier", epoch))
    log.append([], 4)
    made = log.encoded([topic("made")])
    log.append([topic("other")], 5, made)
    assert appended == [("barrier", 4), (made, 5)]
    log.append([topic("a"), topic("b")], 6)
    found, epoch = appended.pop()
    assert [decode_record(one.value or b"") for one in decode_batch(found)] == [topic("a"), topic("b")]
    assert (epoch, {one.timestamp_ms for one in decode_batch(found)}) == (6, {1_000})
    assert list(log._own) == [(8, 5), (8, 6)]


async def test_records_that_are_not_appended_are_forgotten() -> None:
    log, replicated, _ = opened()

    def refuse(*_: object) -> asyncio.Future[int]:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    cast("Any", replicated).append = refuse
    with pytest.raises(KafkaError):
        log.append([topic("a")], 5)
    assert log._own == {}
