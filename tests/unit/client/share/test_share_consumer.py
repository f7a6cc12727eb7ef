"""The consumer of a share group against brokers that share records out in Kafka's messages."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from tests.unit.client.share.brokers import ACCEPT, REJECT, RELEASE, RENEW, TOPIC, brokers_that_share
from tests.unit.client.share.consumers import (
    ENOUGH,
    PATIENCE_S,
    T0,
    consumer,
    explicit,
    happens,
    polled_until,
    records,
    settings,
)

from penstock.client.errors import ConsumerMisuseError, UnsupportedByBrokerError
from penstock.client.share import ShareConsumer
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.blocking import BlockingShareConsumer
from penstock.client.share.heartbeats import ShareHeartbeats
from penstock.client.share.records import SharedRecord
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from penstock.protocol.messages.share_fetch import ShareFetchRequest


async def test_the_next_poll_accepts_what_the_last_one_returned() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.produce(0, b"a", b"b")
        await one.subscribe([TOPIC])
        found = await records(one, 2)
        assert [(r.topic_partition, r.offset, r.value, r.delivery_count) for r in found] == [
            (T0, 0, b"a", 1),
            (T0, 1, b"b", 1),
        ]
        assert one.acquisition_lock_timeout_ms == 30_000
        assert brokers.partitions[0].said == {}
        brokers.produce(0, b"c")
        assert [r.value for r in await records(one, 1)] == [b"c"]
        assert brokers.partitions[0].said == {0: [ACCEPT], 1: [ACCEPT]}
        fetches: list[ShareFetchRequest] = brokers.asked(ShareFetchRequest)
        assert [fetch.share_session_epoch for fetch in fetches] == list(range(len(fetches)))
        assert brokers.asked(ShareAcknowledgeRequest) == [], "they went with the fetch"


async def test_who_polls_without_a_time_out_gets_records() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        await happens(lambda: one._member.assignment)
        for _ in range(ENOUGH):
            if found := await one.poll(0):
                break
        assert [record.value for record in found] == [b"a"]


async def test_ages_of_topics_are_worked_out_when_the_oldest_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        worked_out = Mock(wraps=one.cluster.old_at_s)
        monkeypatch.setattr(one.cluster, "old_at_s", worked_out)
        for number in (1, 2):
            await one.subscribe([TOPIC])
            for _ in range(100):
                await one.poll(0)
            assert worked_out.call_count == number


async def test_each_record_is_accepted_released_or_rejected() -> None:
    async with brokers_that_share() as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a", b"b", b"c")
        await one.subscribe([TOPIC])
        a, b, c = await records(one, 3)
        one.acknowledge(a)
        one.acknowledge(b, AcknowledgeType.RELEASE)
        one.acknowledge_offset(T0, c.offset, AcknowledgeType.REJECT)
        (again,) = await records(one, 1)
        assert (again.value, again.delivery_count) == (b"b", 2)
        assert brokers.partitions[0].said == {0: [ACCEPT], 1: [RELEASE], 2: [REJECT]}


async def test_in_explicit_mode_all_is_acknowledged_before_the_next_poll() -> None:
    async with brokers_that_share() as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a", b"b")
        await one.subscribe([TOPIC])
        a, b = await records(one, 2)
        one.acknowledge(a, AcknowledgeType.REJECT)
        one.acknowledge(a)
        with pytest.raises(ConsumerMisuseError, match=r"1 records .* offset 1: acknowledge all"):
            await one.poll()
        one.acknowledge(b)
        await one.poll(0)
        with pytest.raises(ConsumerMisuseError, match="offset 0 is no record"):
            one.acknowledge(a)
        assert await one.commit_sync() == {}
        await happens(lambda: brokers.partitions[0].said == {0: [ACCEPT], 1: [ACCEPT]})


async def test_a_lock_that_is_renewed_gives_the_record_again() -> None:
    async with brokers_that_share() as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        (a,) = await records(one, 1)
        one.acknowledge(a, AcknowledgeType.RENEW)
        (again,) = await records(one, 1)
        assert again == a
        one.acknowledge(again)
        await one.commit_sync()
        assert brokers.partitions[0].said == {0: [RENEW, ACCEPT]}
        (renewal,) = [it for it in brokers.asked(ShareAcknowledgeRequest) if it.is_renew_ack]
        assert not any(row.is_renew_ack for row in brokers.asked(ShareFetchRequest)), renewal


async def test_a_lock_that_a_commit_renews_gives_the_record_to_the_next_poll() -> None:
    """Which does not ask for a word on it before."""
    async with brokers_that_share() as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a", b"b")
        await one.subscribe([TOPIC])
        a, b = await records(one, 2)
        one.acknowledge(a, AcknowledgeType.RENEW)
        one.acknowledge(b, AcknowledgeType.RENEW)
        assert await one.commit_sync() == {T0: None}
        one.acknowledge(b)
        assert await records(one, 1) == [a], "the other one is finished with"
        with pytest.raises(ConsumerMisuseError, match="1 records of the last poll are not acknowledged"):
            await one.poll(0)
        one.acknowledge(a)
        assert await one.commit_sync() == {T0: None}
        assert brokers.partitions[0].said == {0: [RENEW, ACCEPT], 1: [RENEW, ACCEPT]}


async def test_a_commit_tells_what_became_of_each_partition() -> None:
    async with brokers_that_share(partitions=2) as brokers, consumer(brokers) as one:
        told: list[tuple[TopicPartition, list[int], object]] = []
        one.set_acknowledgement_commit_callback(lambda place, offsets, error: told.append((place, [*offsets], error)))
        brokers.produce(0, b"a")
        brokers.produce(1, b"b")
        await one.subscribe([TOPIC])
        assert len(await records(one, 2)) == 2
        brokers.partitions[1].owners.clear()  # the lock has run out
        outcome = await one.commit_sync()
        assert outcome[T0] is None
        refused = outcome[TopicPartition(TOPIC, 1)]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.INVALID_RECORD_STATE
        assert sorted(told, key=lambda it: it[0]) == [(T0, [0], None), (TopicPartition(TOPIC, 1), [0], refused)]


async def test_a_commit_that_may_succeed_later_is_tried_again() -> None:
    async with brokers_that_share() as brokers, consumer(brokers, fetch_max_wait_ms=1) as one:
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        await records(one, 1)
        await happens(lambda: not one._requests._requests)
        take = brokers.partitions[0].take
        codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        brokers.partitions[0].take = lambda *it: codes.pop() if codes else take(*it)  # type: ignore[method-assign]
        assert await one.commit_sync() == {T0: None}
        assert (codes, brokers.partitions[0].said) == ([], {0: [ACCEPT]})


async def test_what_a_former_leader_gave_out_comes_to_nothing_and_the_new_one_gives_it_again() -> None:
    async with brokers_that_share(2, partitions=1) as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        (a,) = await records(one, 1)
        one.acknowledge(a)
        brokers.move(0, 2)
        (outcome,) = (await one.commit_sync()).values()
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        (again,) = await records(one, 1)
        assert (again.value, again.delivery_count) == (b"a", 2)
        one.acknowledge(again)
        assert await one.commit_sync() == {T0: None}
        await polled_until(one, lambda: not brokers.nodes[1].sessions)


async def test_a_lost_session_is_opened_anew() -> None:
    async with brokers_that_share() as brokers, explicit(brokers) as one:
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        (a,) = await records(one, 1)
        brokers.nodes[1].hang_up()
        one.acknowledge(a)
        outcome = (await one.commit_sync())[T0]
        assert outcome is not None, "the broker has released it"
        (again,) = await records(one, 1)
        assert again.delivery_count == 2
        one.acknowledge(again)
        assert await one.commit_sync() == {T0: None}


async def test_what_was_given_out_in_a_lost_session_is_not_acknowledged_in_the_next() -> None:
    async with brokers_that_share() as brokers, explicit(brokers, fetch_max_wait_ms=1) as one:
        brokers.produce(0, b"a", b"b")
        await one.subscribe([TOPIC])
        a, b = await records(one, 2)
        await happens(lambda: not one._requests._requests)
        brokers.nodes[1].refuses = [ErrorCode.SHARE_SESSION_NOT_FOUND]
        codes = []
        for record in (a, b):
            one.acknowledge(record)
            error = (await one.commit_sync())[T0]
            assert isinstance(error, KafkaError)
            codes.append(error.code)
        assert codes == [ErrorCode.NETWORK_EXCEPTION] * 2
        assert brokers.partitions[0].said == {}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
    ids=lambda code: code.name,
)
async def test_a_refusal_that_passes_is_nothing_to_the_application(code: ErrorCode) -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.nodes[1].refuses = [code, code]
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        assert [r.value for r in await records(one, 1)] == [b"a"]


async def test_a_refusal_for_good_is_raised() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.nodes[1].refuses = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        await one.subscribe([TOPIC])
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await records(one, 1)


async def test_closing_sends_what_was_acknowledged_and_releases_the_rest() -> None:
    async with brokers_that_share() as brokers:
        async with explicit(brokers) as one:
            brokers.produce(0, b"a", b"b")
            await one.subscribe([TOPIC])
            a, _ = await records(one, 2)
            one.acknowledge(a)
        partition = brokers.partitions[0]
        assert (partition.said, partition.owners, list(partition.values)) == ({0: [ACCEPT]}, {}, [1])
        assert brokers.nodes[1].sessions == {}
        assert brokers.members == {}
        assert [it.member_epoch for it in brokers.heartbeats][-1] == -1


async def test_a_member_that_is_not_known_any_more_joins_again() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        await one.subscribe([TOPIC])
        await one.poll(1)
        await happens(lambda: len(brokers.heartbeats) > 1)
        first = brokers.heartbeats[0]
        assert (first.member_epoch, first.subscribed_topic_names) == (0, [TOPIC])
        assert brokers.heartbeats[1].subscribed_topic_names is None, "it has not changed"
        brokers.members.clear()
        count = len(brokers.heartbeats)
        await happens(lambda: brokers.members)
        (again,) = [it for it in brokers.heartbeats[count:] if it.member_epoch == 0]
        assert (again.member_id, again.subscribed_topic_names) == (first.member_id, [TOPIC])
        brokers.produce(0, b"a")
        assert len(await records(one, 1)) == 1


async def test_heartbeats_do_not_end_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fault(*what: object) -> bool:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(ShareHeartbeats, "_beat_once", fault)
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        await one.subscribe([TOPIC])
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await records(one, 1)


async def test_partitions_come_and_go_with_the_assignment() -> None:
    async with brokers_that_share(2, partitions=4) as brokers, consumer(brokers) as one:
        member = one._member.member_id
        brokers.assignments[member] = [0]
        await one.subscribe([TOPIC])
        await happens(lambda: one._member.assignment)
        await one.poll(1)
        brokers.assignments[member] = [1, 3]
        brokers.produce(3, b"d")
        assert [r.value for r in await records(one, 1)] == [b"d"]
        await happens(lambda: brokers.nodes[2].sessions.get(member, (0, []))[1] == [1, 3])
        await polled_until(one, lambda: not brokers.nodes[1].sessions)


async def test_with_a_limit_of_records_one_broker_is_asked_at_a_time() -> None:
    async with brokers_that_share(3, partitions=3) as brokers:
        async with consumer(brokers, share_acquire_mode="record_limit", max_poll_records=2, fetch_max_wait_ms=5) as one:
            await one.subscribe([TOPIC])
            for index in range(3):
                brokers.produce(index, *[b"x"] * 4)
            count = 0
            async with asyncio.timeout(PATIENCE_S):
                while count < 12:
                    some = await one.poll()
                    assert len(some) <= 2
                    count += len(some)
            assert all(it.share_acquire_mode == 1 for it in brokers.asked(ShareFetchRequest))
        assert all(not partition.values for partition in brokers.partitions.values()) or count == 12


async def test_two_share_the_records_of_one_partition() -> None:
    async with (
        brokers_that_share() as brokers,
        consumer(brokers, max_poll_records=1) as one,
        consumer(brokers, max_poll_records=1) as other,
    ):
        for each in (one, other):
            await each.subscribe([TOPIC])
        brokers.produce(0, b"a", b"b")
        (mine,), (others,) = await records(one, 1), await records(other, 1)
        assert {mine.value, others.value} == {b"a", b"b"}


async def test_a_cluster_without_share_groups_is_named_as_such() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.refusal = ErrorCode.UNSUPPORTED_VERSION
        await one.subscribe([TOPIC])
        with pytest.raises(UnsupportedByBrokerError, match=r"share\.version"):
            await records(one, 1)


async def test_who_misuses_it_is_told() -> None:
    with pytest.raises(ValueError, match=r"group\.id"):
        ShareConsumer("127.0.0.1:1")
    async with brokers_that_share() as brokers:
        one = consumer(brokers)
        with pytest.raises(ConsumerMisuseError, match="not open"):
            await one.poll()
        async with one:
            with pytest.raises(ConsumerMisuseError, match="not subscribed"):
                await one.poll()
            with pytest.raises(ConsumerMisuseError, match="implicit"):
                one.acknowledge(SharedRecord(TOPIC, 0, 0, 5, None, b""))
            await one.subscribe([TOPIC])
            assert one.subscription == [TOPIC]
            await one.unsubscribe()
            assert (one.subscription, brokers.members) == ([], {})


async def test_it_works_without_an_event_loop_as_well() -> None:
    said: list[object] = []

    def work(address: str) -> None:
        with BlockingShareConsumer(address, settings(share_acknowledgement_mode="explicit")) as one:
            one.subscribe([TOPIC])
            one.set_acknowledgement_commit_callback(lambda *told: said.append(told))
            for record in one:
                one.acknowledge(record)
                said.append(one.commit_sync())
                return

    async with brokers_that_share() as brokers:
        brokers.produce(0, b"a")
        await asyncio.to_thread(work, brokers.bootstrap)
        assert said == [(T0, [0], None), {T0: None}]
        assert brokers.partitions[0].said == {0: [ACCEPT]}
        assert not [it for it in threading.enumerate() if it.name.startswith("share consumer")]


async def test_who_unsubscribes_keeps_nothing_that_was_fetched_from_others() -> None:
    """Neither what it has not polled, nor what a request that is under way brings."""
    async with brokers_that_share(2, 2) as brokers, consumer(brokers, fetch_max_wait_ms=60_000) as one:
        await one.subscribe([TOPIC])
        await polled_until(one, lambda: len(brokers.asked(ShareFetchRequest)) == 2)
        brokers.produce(0, b"a")
        await happens(lambda: one._requests._fetched)
        await one.unsubscribe()
        brokers.produce(1, b"b")
        await happens(lambda: all(one.counts and not one.owners for one in brokers.partitions.values()))


async def test_what_was_not_answered_before_the_end_is_told() -> None:
    told: list[tuple[TopicPartition, list[int], object]] = []
    async with brokers_that_share() as brokers:
        one = explicit(brokers, fetch_max_wait_ms=60_000)
        await one.start()
        one.set_acknowledgement_commit_callback(lambda place, offsets, error: told.append((place, [*offsets], error)))
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        one.acknowledge((await records(one, 1))[0])
        goes_on = asyncio.Event()

        async def never(request: ShareFetchRequest) -> Any:
            await goes_on.wait()

        brokers.nodes[1]._fetch = never  # type: ignore[method-assign]
        await one.poll(0)
        await one.close(timeout_ms=1)
        ((partition, offsets, error),) = told
        assert (partition, offsets) == (T0, [0])
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert not one._heartbeats.are_going
        assert not [it for it in threading.enumerate() if it.name.startswith("heartbeats of share group")]
        goes_on.set()


async def test_what_is_to_be_tried_again_goes_with_the_end() -> None:
    async with brokers_that_share() as brokers:
        one = explicit(brokers, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000, fetch_max_wait_ms=1)
        await one.start()
        brokers.produce(0, b"a")
        await one.subscribe([TOPIC])
        one.acknowledge((await records(one, 1))[0])
        await happens(lambda: not one._requests._requests)
        take = brokers.partitions[0].take
        codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        brokers.partitions[0].take = lambda *it: codes.pop() if codes else take(*it)  # type: ignore[method-assign]
        (sent,) = one.commit_async()
        await happens(lambda: sent.failures)
        await one.close()
        assert brokers.partitions[0].said == {0: [ACCEPT]}
        assert sent.is_done
        assert sent.error is None
