"""What a marker says on its way, and which of the markers under way are given up where leaders move."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.node.coordinators.test_markers import T0, T1, T2, Brokers, begun, job, turns, written

from penstock.coordinator.effects import Markers
from penstock.node.coordinators.markers import MarkerSender, _Waiting
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Noting(Brokers):
    """Keeps whole requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[WriteTxnMarkersRequest] = []

    async def ask_broker(
        self, broker_id: int, request: WriteTxnMarkersRequest, answer: type[WriteTxnMarkersResponse], *, lane: str
    ) -> WriteTxnMarkersResponse:
        self.requests.append(request)
        return await super().ask_broker(broker_id, request, answer, lane=lane)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_marker_says_all_that_the_coordinator_decided(commits: bool) -> None:
    brokers = Noting()
    brokers.leaders = dict.fromkeys((T0, T1, T2, ("u", 5)), 1)
    one = Markers(7, 3, 4, commits, 2, (T2, ("u", 5), T0))
    assert await written(MarkerSender(brokers), one) == dict.fromkeys(one.partitions, ErrorCode.NONE)
    ((marker,),) = (request.markers for request in brokers.requests)
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, commits)
    assert (marker.coordinator_epoch, marker.transaction_version) == (4, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [2, 0]), ("u", [5])]


async def test_a_request_goes_on_as_long_as_one_of_its_markers_is_waited_for() -> None:
    class Slow(Brokers):
        later = asyncio.Event()

        async def ask_broker(
            self, broker_id: int, request: WriteTxnMarkersRequest, answer: type[WriteTxnMarkersResponse], *, lane: str
        ) -> WriteTxnMarkersResponse:
            if self.asked:
                self.may_answer = self.later
            return await super().ask_broker(broker_id, request, answer, lane=lane)

    brokers = Slow()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    first, gone, stays = await begun(sender, job(0, T2), job(1, T0), job(2, T2))
    brokers.may_answer.set()
    await first
    await turns()
    brokers.leaders[T0] = 2
    sender.follow()
    await turns()
    assert (gone.done(), stays.done()) == (True, False)
    assert brokers.asked == [(1, [0]), (1, [1, 2])]
    brokers.later.set()
    assert [await gone, await stays] == [{T0: MOVED}, {T2: ErrorCode.NONE}]


async def test_who_leads_as_before_is_waited_for() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    (waiting,) = await begun(sender, job(0, T0))
    sender.follow()
    await turns()
    assert (waiting.done(), brokers.asked) == (False, [(1, [0])])
    del brokers.leaders[T0]
    sender.follow()
    assert await waiting == {T0: MOVED}, "nobody is known to lead it"
    await turns()
    assert sender._ways == {}
    await sender.stop()


async def test_a_way_that_is_left_is_not_taken_away_from_its_successor() -> None:
    """The request that was given up ends later than the next one begins."""
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    sent, following = await begun(sender, job(0, T0), job(1, T2))
    brokers.leaders[T0] = 2
    sender.follow()
    way = sender._ways[1]
    await turns()
    assert sender._ways[1] is way, "it sends what was queued"
    assert len(sender._tasks) == 1, "nobody waits for the silent request any more"
    assert await sent == {T0: MOVED}
    third = asyncio.create_task(written(sender, job(2, T2)))
    await turns()
    assert brokers.asked == [(1, [0]), (1, [1])], "one request after the other"
    brokers.may_answer.set()
    assert [await following, await third] == [{T2: ErrorCode.NONE}] * 2
    assert brokers.asked == [(1, [0]), (1, [1]), (1, [2])]
    assert sender._ways == {}


async def test_who_coordinates_no_longer_leaves_no_answer_behind() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    (waiting,) = await begun(sender, job(0, T0, T1))
    answers = [one.answer for way in sender._ways.values() for one in way.sent]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert [one.cancelled() for one in answers] == [True, True]
    brokers.may_answer.set()
    await turns()
    assert sender._ways == {}


async def test_each_partition_that_an_answer_leaves_out_has_the_error_of_the_network() -> None:
    class Silent(Brokers):
        async def ask_broker(
            self, broker_id: int, request: WriteTxnMarkersRequest, answer: type[WriteTxnMarkersResponse], *, lane: str
        ) -> WriteTxnMarkersResponse:
            told = await super().ask_broker(broker_id, request, answer, lane=lane)
            return told.replace(markers=told.markers[1:])

    assert await written(MarkerSender(Silent()), job(7, T0)) == {T0: ErrorCode.NETWORK_EXCEPTION}


async def test_a_refusal_of_a_broker_is_told_as_it_is() -> None:
    brokers = Brokers()
    for code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT):
        brokers.error = KafkaError(code)
        assert await written(MarkerSender(brokers), job(7, T0)) == {T0: code}


async def test_what_comes_in_the_moment_in_which_a_request_is_given_up_is_sent_all_the_same() -> None:
    brokers = Brokers()
    brokers.may_answer.clear()
    sender = MarkerSender(brokers)
    (sent,) = await begun(sender, job(0, T0))
    brokers.leaders[T0] = 2
    sender.follow()
    answer = sender._queue(1, _Waiting(job(9, T2), [T2]))
    await turns()
    assert brokers.asked == [(1, [0]), (1, [9])]
    brokers.may_answer.set()
    assert [await sent, await answer] == [{T0: MOVED}, {T2: ErrorCode.NONE}]
