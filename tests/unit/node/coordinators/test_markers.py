"""Markers go to the leaders of partitions: those for one broker together, and each is answered for itself."""

from __future__ import annotations

import asyncio

import pytest

from penstock.coordinator.effects import Markers
from penstock.node.coordinators import markers as module
from penstock.node.coordinators.markers import MarkerSender
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T0, T1, T2, GONE = ("t", 0), ("t", 1), ("t", 2), ("gone", 0)
LEADERS = {T0: 1, T1: 2, T2: 1}


class Brokers:
    """Answer when they are let, each partition with NONE if nothing else is said."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[int]]] = []
        """Brokers, and the producers whose markers they got."""
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.quick: list[int] = []
        """Those that need not be let."""
        self.error: Exception | None = None
        self.leaders = dict(LEADERS)

    def leader_of(self, name: str, partition: int) -> int:
        if (name, partition) not in self.leaders:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.leaders[name, partition]

    async def ask_broker(
        self, broker_id: int, request: WriteTxnMarkersRequest, answer: type[WriteTxnMarkersResponse], *, lane: str
    ) -> WriteTxnMarkersResponse:
        assert lane == "markers"
        self.asked.append((broker_id, [marker.producer_id for marker in request.markers]))
        if broker_id not in self.quick:
            await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self.errors.get((topic.name, index), ErrorCode.NONE),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


def job(producer_id: int, *partitions: tuple[str, int]) -> Markers:
    return Markers(producer_id, 3, 4, True, 2, partitions)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def written(sender: MarkerSender, one: Markers, parts: list[module.Errors] | None = None) -> module.Errors:
    """The whole answer; `parts` are what was told before its end."""
    told: module.Errors = {}

    async def tell(errors: module.Errors) -> None:
        told.update(errors)
        if parts is not None:
            parts.append(errors)

    return told | await sender.written(one, tell)


async def begun(sender: MarkerSender, *jobs: Markers) -> list[asyncio.Task[module.Errors]]:
    """The first one's request is on its way when the others come."""
    tasks = []
    for one in jobs:
        tasks.append(asyncio.create_task(written(sender, one)))
        await turns()
    return tasks


async def test_each_partition_has_its_answer() -> None:
    brokers = Brokers()
    brokers.errors = {T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    found = await written(MarkerSender(brokers), job(7, T0, T1, GONE))
    assert found == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.NOT_LEADER_OR_FOLLOWER,  # its leader may hear of it soon
        GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert brokers.asked == [(1, [7]), (2, [7])]


async def test_what_one_broker_answers_does_not_wait_for_another_one() -> None:
    brokers = Brokers()
    brokers.errors = {T1: ErrorCode.REQUEST_TIMED_OUT}
    brokers.may_answer.clear()
    brokers.quick = [2]
    parts: list[module.Errors] = []
    waiting = asyncio.create_task(written(MarkerSender(brokers), job(7, T0, T1, GONE), parts))
    await turns()
    assert parts == [{GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, {T1: ErrorCode.REQUEST_TIMED_OUT}]
    brokers.may_answer.set()
    assert (await waiting)[T0] is ErrorCode.NONE
    assert len(parts) == 2, "the last one is the answer itself"


async def test_what_comes_while_a_request_is_under_way_goes_together_in_the_next_one() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    waiting = await begun(sender, *(job(number, T0) for number in range(4)))
    brokers.may_answer.set()
    assert await asyncio.gather(*waiting) == [{T0: ErrorCode.NONE}] * 4
    assert brokers.asked == [(1, [0]), (1, [1, 2, 3])]


async def test_a_request_has_a_limit_but_for_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    monkeypatch.setattr(module, "MOST_PARTITIONS", 1)
    waiting = await begun(sender, job(0, T0), job(1, T0, T2), job(2, T0), job(3, T0))
    brokers.may_answer.set()
    await asyncio.gather(*waiting)
    assert brokers.asked == [(1, [0]), (1, [1]), (1, [2]), (1, [3])]


async def test_two_markers_of_one_producer_have_requests_of_their_own() -> None:
    """An answer names the producer alone."""
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    waiting = await begun(sender, *(job(number, T0) for number in (0, 1, 1)))
    brokers.may_answer.set()
    await asyncio.gather(*waiting)
    assert brokers.asked == [(1, [0]), (1, [1]), (1, [1])]


async def test_a_broker_that_cannot_be_reached_is_told_of() -> None:
    brokers = Brokers()
    brokers.error = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    assert await written(MarkerSender(brokers), job(7, T0)) == {T0: ErrorCode.NETWORK_EXCEPTION}


async def test_what_nobody_has_foreseen_is_answered_too_and_what_follows_is_sent() -> None:
    """Or the transactions stayed prepared for ever."""
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    waiting = await begun(sender, job(0, T0), job(1, T0))
    brokers.error = OSError("no certificate")
    brokers.may_answer.set()
    assert await asyncio.gather(*waiting) == [{T0: ErrorCode.UNKNOWN_SERVER_ERROR}] * 2
    brokers.error = None
    assert await written(sender, job(0, T0)) == {T0: ErrorCode.NONE}


async def test_markers_for_which_nobody_waits_any_more_are_not_sent() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    first, second = await begun(sender, job(0, T0), job(1, T0))
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    brokers.may_answer.set()
    await first
    await turns()
    assert brokers.asked == [(1, [0])]
    await sender.stop()


async def test_a_silent_broker_is_waited_for_no_longer_than_it_leads() -> None:
    """Neither by what it was sent, nor by what is to follow: that goes to the new leader, too."""
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    sent, queued, of_another = await begun(sender, job(0, T0), job(1, T0), job(2, T2))
    brokers.leaders[T0] = 2
    sender.follow()
    assert [await sent, await queued] == [{T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}] * 2
    again = await begun(sender, job(0, T0))
    brokers.may_answer.set()
    assert await asyncio.gather(*again, of_another) == [{T0: ErrorCode.NONE}, {T2: ErrorCode.NONE}]
    assert brokers.asked == [(1, [0]), (1, [2]), (2, [0])]


async def test_what_the_silent_broker_still_leads_is_waited_for() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    (waiting,) = await begun(sender, job(0, T0, T2))
    brokers.leaders[T0] = 2
    sender.follow()
    await turns()
    assert not waiting.done()
    brokers.may_answer.set()
    assert await waiting == {T0: ErrorCode.NONE, T2: ErrorCode.NONE}
    assert brokers.asked == [(1, [0])]


async def test_so_much_of_what_has_to_go_elsewhere_is_looked_at_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    monkeypatch.setattr(module, "MOST_PARTITIONS", 1)
    first, *others = await begun(sender, *(job(number, T0) for number in range(3)))
    brokers.leaders[T0] = 2
    sender.follow()
    assert await asyncio.gather(first, *others) == [{T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}] * 3
    await turns()
    assert sender._ways == {}
    assert brokers.asked == [(1, [0])]
