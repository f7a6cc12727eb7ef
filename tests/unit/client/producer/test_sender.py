"""What the producer makes of each answer: try again with the same numbers, begin anew, or tell the application."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster
from tests.unit.client.producer.sending import answer, hang_up, headers, producing

from penstock.client.cluster import ClusterClient
from penstock.client.connection import Connection
from penstock.client.errors import (
    AuthenticationFailedError,
    ClientClosedError,
    ConnectionFailedError,
    DeliveryTimedOutError,
    ProducerClosedError,
    TransactionFailedError,
    UnusableSettingsError,
)
from penstock.client.metadata import ClusterMetadata
from penstock.client.producer import Producer
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message


async def test_a_moved_leader_and_a_lost_connection_are_tried_again_with_the_same_numbers() -> None:
    scripts = (answer(ErrorCode.NONE, 3), answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), hang_up, answer(ErrorCode.NONE, 4))
    async with producing(*scripts) as (cluster, producer):
        assert (await producer.send_and_wait(TOPIC, b"first")).offset == 3
        assert (await producer.send_and_wait(TOPIC, b"second")).offset == 4
        numbers = [(header.producer_id, header.base_sequence) for header in headers(cluster)]
        assert numbers == [(1, 0), (1, 1), (1, 1), (1, 1)]


async def test_the_leader_that_a_refusal_names_is_asked_and_nobody_about_it() -> None:
    """KIP-951: the refusal says where the other node is as well."""

    def led_elsewhere(request: Message) -> Reply:
        assert isinstance(request, ProduceRequest)
        assert cluster.broker is not None
        host, port = cluster.broker.address
        leader = LeaderIdAndEpoch(leader_id=NODE_ID + 1, leader_epoch=1)
        refusal = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)(request)
        assert isinstance(refusal, ProduceResponse)
        refusal.node_endpoints = [NodeEndpoint(node_id=NODE_ID + 1, host=host, port=port)]
        return refusal

    async with producing(answer(ErrorCode.NONE, 3), led_elsewhere, answer(ErrorCode.NONE, 4)) as (cluster, producer):
        await producer.send_and_wait(TOPIC, b"first")
        asked = len(cluster.asked(ApiKey.METADATA))
        assert (await producer.send_and_wait(TOPIC, b"second")).offset == 4
        assert len(cluster.asked(ApiKey.METADATA)) == asked
        leader = producer.cluster.metadata.leader(TopicPartition(TOPIC, 0))
        assert leader is not None
        assert (leader.leader, leader.leader_epoch) == (NODE_ID + 1, 1)


@pytest.mark.parametrize("leader", [(NODE_ID + 1, 1), (NODE_ID, -1), (NODE_ID, 1), (-1, -1)])
async def test_a_refusal_that_names_nobody_who_can_be_asked_has_the_leader_looked_up(leader: tuple[int, int]) -> None:
    told = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    refused = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=told)
    async with producing(answer(ErrorCode.NONE, 3), refused, answer(ErrorCode.NONE, 4)) as (cluster, producer):
        await producer.send_and_wait(TOPIC, b"first")
        asked = len(cluster.asked(ApiKey.METADATA))
        assert (await producer.send_and_wait(TOPIC, b"v")).offset == 4
        assert len(cluster.asked(ApiKey.METADATA)) == asked + 1


def refreshing_fails_once(monkeypatch: pytest.MonkeyPatch, cluster: ClusterClient, error: Exception) -> None:
    refresh, errors = cluster.refresh, [error]

    async def failing(*what: Any, **how: Any) -> ClusterMetadata:
        if errors:
            raise errors.pop()
        return await refresh(*what, **how)

    monkeypatch.setattr(cluster, "refresh", failing)


FAILURES = [
    AuthenticationFailedError("the password was changed"),
    UnusableSettingsError("the file of keys is not there"),
    KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "of metadata"),
]


@pytest.mark.parametrize("error", [*FAILURES, RuntimeError("a fault of ours")], ids=lambda one: type(one).__name__)
async def test_whatever_fails_while_leaders_are_looked_up_does_not_end_the_producer(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with producing(answer(ErrorCode.NONE, 3)) as (cluster, producer):
        cluster.leaderless = {0}
        await producer.cluster.refresh([TOPIC])
        cluster.leaderless = set()
        refreshing_fails_once(monkeypatch, producer.cluster, error)
        async with asyncio.timeout(10):
            assert (await producer.send_and_wait(TOPIC, b"v", partition=0)).offset == 3


@pytest.mark.parametrize("error", FAILURES, ids=lambda one: type(one).__name__)
async def test_whatever_fails_after_an_answer_does_not_settle_its_batches_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    refused = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    async with producing(refused, answer(ErrorCode.NONE, 4)) as (_, producer):
        await producer.cluster.topic(TOPIC)
        refreshing_fails_once(monkeypatch, producer.cluster, error)
        async with asyncio.timeout(10):
            assert (await producer.send_and_wait(TOPIC, b"v")).offset == 4


async def test_a_duplicate_is_a_success() -> None:
    async with producing(answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)) as (_, producer):
        assert (await producer.send_and_wait(TOPIC, b"v")).offset == -1


async def test_a_refused_record_is_told_and_its_numbers_are_used_again() -> None:
    details = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")]
    refused = answer(ErrorCode.INVALID_RECORD, error_message="bad batch", record_errors=details)
    async with producing(refused, answer(ErrorCode.NONE, 0)) as (cluster, producer):
        with pytest.raises(KafkaError, match=r"INVALID_RECORD: bad batch \(no key\)"):
            await producer.send_and_wait(TOPIC, b"bad")
        await producer.send_and_wait(TOPIC, b"good")
        assert [header.base_sequence for header in headers(cluster)] == [0, 0]


async def test_a_batch_that_is_too_large_goes_in_halves() -> None:
    scripts = (answer(ErrorCode.MESSAGE_TOO_LARGE), answer(ErrorCode.NONE, 0), answer(ErrorCode.NONE, 2))
    async with producing(*scripts, linger_ms=60_000) as (cluster, producer):
        sent = [await producer.send(TOPIC, b"%d" % number) for number in range(4)]
        await producer.flush()
        assert [(await each).offset for each in sent] == [0, 1, 2, 3]
        assert [(header.base_sequence, header.record_count) for header in headers(cluster)] == [(0, 4), (0, 2), (2, 2)]


async def test_a_broker_that_forgot_the_producer_gets_a_new_one() -> None:
    scripts = (answer(ErrorCode.NONE, 0), answer(ErrorCode.UNKNOWN_PRODUCER_ID), answer(ErrorCode.NONE, 1))
    async with producing(*scripts) as (cluster, producer):
        await producer.send_and_wait(TOPIC, b"a")
        assert (await producer.send_and_wait(TOPIC, b"b")).offset == 1
        numbers = [(header.producer_id, header.base_sequence) for header in headers(cluster)]
        assert numbers == [(1, 0), (1, 1), (2, 0)]


async def test_a_gap_in_the_numbers_fails_the_batch_and_begins_anew() -> None:
    scripts = (answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), answer(ErrorCode.NONE, 0))
    async with producing(*scripts) as (cluster, producer):
        with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await producer.send_and_wait(TOPIC, b"a")
        await producer.send_and_wait(TOPIC, b"b")
        assert [header.producer_id for header in headers(cluster)] == [1, 2]


async def test_records_that_cannot_be_delivered_in_time_say_why() -> None:
    scripts = [answer(ErrorCode.NOT_ENOUGH_REPLICAS)] * 10_000
    async with producing(*scripts, delivery_timeout_ms=300) as (_, producer):
        with pytest.raises(DeliveryTimedOutError, match=r"within 300 ms; the last failure: .*NOT_ENOUGH_REPLICAS"):
            await producer.send_and_wait(TOPIC, b"v")


async def test_nothing_of_a_record_that_has_failed_is_kept() -> None:
    async with producing(hang_up, retries=0) as (_, producer):
        delivery = await producer.send(TOPIC, b"v")
        with pytest.raises(ConnectionFailedError):
            await delivery
        left = weakref.ref(delivery)
        del delivery
        await producer.flush()
        await producer.cluster.refresh([])
        gc.collect()
        assert left() is None, "its error has the batch in its traceback, with all its records"
        assert (producer._sender._failures, producer._sender._in_flight) == ({}, {})


async def test_records_that_found_no_leader_in_time_say_so() -> None:
    async with producing(delivery_timeout_ms=300, max_block_ms=20) as (cluster, producer):
        await producer.cluster.topic(TOPIC)
        cluster.leaderless = {0}
        await producer.cluster.refresh([TOPIC])
        with pytest.raises(DeliveryTimedOutError, match=r"the last failure: .*t-0 has no leader now"):
            await producer.send_and_wait(TOPIC, b"v")


async def test_records_that_wait_for_a_producer_id_say_so() -> None:
    def refuse(_: Message) -> Reply:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async with producing(delivery_timeout_ms=300) as (cluster, producer):
        cluster.scripts[ApiKey.INIT_PRODUCER_ID] = [refuse] * 10_000
        with pytest.raises(DeliveryTimedOutError, match=r"the last failure: .*COORDINATOR_LOAD_IN_PROGRESS"):
            await producer.send_and_wait(TOPIC, b"v")


async def test_a_batch_whose_producer_id_is_lost_before_it_has_numbers_waits_for_the_next_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is no attempt: it was not sent."""
    async with producing(answer(ErrorCode.NONE, 3), retries=0) as (cluster, producer):
        connect, others = producer.cluster.connection, iter([TopicPartition(TOPIC, 1)])

        async def connection(node_id: int) -> Connection:
            for other in others:  # a batch of another partition is given up meanwhile
                producer._sender._sequences.reset(other)
            return await connect(node_id)

        monkeypatch.setattr(producer.cluster, "connection", connection)
        assert (await producer.send_and_wait(TOPIC, b"v")).offset == 3
        (header,) = headers(cluster)
        assert (header.producer_id, header.base_sequence) == (2, 0)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR],
    ids=lambda code: code.name,
)
async def test_numbers_that_the_broker_may_have_taken_are_not_used_again(code: ErrorCode) -> None:
    async with producing(answer(code), answer(ErrorCode.NONE, 0)) as (cluster, producer):
        with pytest.raises(KafkaError, match=code.name):
            await producer.send_and_wait(TOPIC, b"perhaps")
        await producer.send_and_wait(TOPIC, b"good")
        assert [(header.producer_id, header.base_sequence) for header in headers(cluster)] == [(1, 0), (2, 0)]


async def test_a_broker_that_reads_nothing_holds_no_records_that_nobody_acknowledges() -> None:
    async with producing(lambda _: None, lambda _: None, acks=0, request_timeout_ms=50) as (_, producer):
        await producer.send_and_wait(TOPIC, b"first")
        first = await producer.cluster.connection(NODE_ID)
        first.pause_writing()
        async with asyncio.timeout(10):
            assert (await producer.send_and_wait(TOPIC, b"second")).offset == -1
        assert first.closed


async def test_the_leaders_of_each_topic_are_looked_up_again_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often those of another one are."""
    async with producing(answer(ErrorCode.NONE, 3)) as (cluster, producer):
        await producer.cluster.refresh([TOPIC])
        loop, later_s = asyncio.get_running_loop(), producer.cluster.settings.metadata_max_age_ms / 1000
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + later_s)
        await producer.cluster.refresh(["another"])
        asked = len(cluster.asked(ApiKey.METADATA))
        await producer.send_and_wait(TOPIC, b"v")
        assert len(cluster.asked(ApiKey.METADATA)) == asked + 1


async def test_a_transaction_that_may_not_be_committed_is_aborted() -> None:
    async with producing(answer(ErrorCode.NONE, 0), transactional_id="x") as (cluster, producer):
        cluster.scripts[ApiKey.ADD_PARTITIONS_TO_TXN] = [lambda _: AddPartitionsToTxnResponse()]
        refused = EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        cluster.scripts[ApiKey.END_TXN] = [lambda _: refused, lambda _: EndTxnResponse()]
        with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
            async with producer.transaction():
                await producer.send(TOPIC, b"v")
        ends = [end for end in cluster.asked(ApiKey.END_TXN) if isinstance(end, EndTxnRequest)]
        assert [end.committed for end in ends] == [True, False]
        await producer.begin_transaction()


async def test_retries_have_a_limit() -> None:
    scripts = [answer(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3
    async with producing(*scripts, retries=2) as (cluster, producer):
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            await producer.send_and_wait(TOPIC, b"v")
        assert len(headers(cluster)) == 3


async def test_without_idempotence_nothing_is_numbered() -> None:
    async with producing(answer(ErrorCode.NONE, 0), acks=1) as (cluster, producer):
        await producer.send_and_wait(TOPIC, b"v")
        (header,) = headers(cluster)
        assert (header.producer_id, header.base_sequence) == (-1, -1)
        assert cluster.asked(ApiKey.INIT_PRODUCER_ID) == []


async def test_text_is_refused_before_it_spoils_a_batch() -> None:
    async with producing() as (_, producer):
        for arguments in ({"value": "text"}, {"value": b"v", "key": "k"}, {"value": b"v", "headers": [("h", "text")]}):
            with pytest.raises(TypeError):
                await producer.send(TOPIC, **arguments)


async def test_a_record_that_cannot_be_encoded_fails_its_batch_only() -> None:
    async with producing(answer(ErrorCode.NONE, 0)) as (_, producer):
        lonely_surrogate = await producer.send(TOPIC, b"v", headers=[("\ud800", None)])
        with pytest.raises(UnicodeEncodeError):
            await lonely_surrogate
        assert (await producer.send_and_wait(TOPIC, b"v")).offset == 0


async def test_closing_in_time_gives_up_what_is_left() -> None:
    scripts = [answer(ErrorCode.NOT_ENOUGH_REPLICAS)] * 10_000
    async with producing(*scripts, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as (cluster, producer):
        delivery = await producer.send(TOPIC, b"v")
        while not cluster.asked(ApiKey.PRODUCE):
            await producer.cluster.refresh([])
        await producer.close(timeout_ms=1)
        with pytest.raises(ProducerClosedError, match="after waiting for 1 ms"):
            await delivery


async def in_flight(cluster: FakeCluster, producer: Producer) -> list[asyncio.Future[RecordMetadata]]:
    """A record that is under way, without an answer, and one behind it."""
    first = await producer.send(TOPIC, b"under way")
    while not cluster.asked(ApiKey.PRODUCE):
        await asyncio.sleep(0)
    return [first, await producer.send(TOPIC, b"behind it")]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_closing_gives_up_what_is_under_way_and_connects_to_nobody(*, is_cancelled: bool) -> None:
    async with producing(lambda request: None) as (cluster, producer):
        sent = await in_flight(cluster, producer)
        if is_cancelled:
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
        else:
            await producer.close(timeout_ms=1)
        assert [type(delivery.exception()) for delivery in sent if delivery.done()] == [ProducerClosedError] * 2
        assert not producer._sender._requests
        with pytest.raises(ClientClosedError):
            await producer.cluster.refresh([])


async def test_a_record_that_waits_for_room_while_the_producer_is_closed_is_refused() -> None:
    async with producing(answer(ErrorCode.NONE, 0), linger_ms=3_600_000, buffer_memory=600) as (_, producer):
        first = await producer.send(TOPIC, bytes(100))
        waits = asyncio.create_task(producer.send(TOPIC, b"late"))
        await asyncio.sleep(0)
        await producer.close()
        assert (await first).offset == 0
        async with asyncio.timeout(10):
            with pytest.raises(ProducerClosedError):
                await waits


async def test_closing_aborts_an_open_transaction() -> None:
    settings = {"transactional_id": "x", "linger_ms": 3_600_000}
    async with producing(answer(ErrorCode.NONE, 0), **settings) as (cluster, producer):
        cluster.scripts[ApiKey.ADD_PARTITIONS_TO_TXN] = [lambda _: AddPartitionsToTxnResponse()]
        cluster.scripts[ApiKey.END_TXN] = [lambda _: EndTxnResponse()]
        await producer.begin_transaction()
        sent = await producer.send(TOPIC, b"v")
        await producer.close()
        assert (await sent).offset == 0
        (end,) = cluster.asked(ApiKey.END_TXN)
        assert isinstance(end, EndTxnRequest)
        assert not end.committed


async def test_closing_ends_when_the_last_records_fail_meanwhile() -> None:
    async with producing(linger_ms=60_000) as (cluster, producer):
        cluster.scripts[ApiKey.INIT_PRODUCER_ID] = [
            lambda _: InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        ]
        delivery = await producer.send(TOPIC, b"v")
        async with asyncio.timeout(10):
            await producer.close()
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await delivery


async def test_what_is_abandoned_while_leaders_are_looked_up_is_not_sent_and_what_follows_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with producing(answer(ErrorCode.NONE, 3)) as (cluster, producer):
        sender = producer._sender
        look_up, abandoned = sender._know_leaders, iter([ProducerClosedError("in vain")])

        async def abandon(ready: Sequence[TopicPartition]) -> bool:
            for error in abandoned:
                sender.abandon(error)
                return True
            return await look_up(ready)

        monkeypatch.setattr(sender, "_know_leaders", abandon)
        with pytest.raises(ProducerClosedError, match="in vain"):
            await producer.send_and_wait(TOPIC, b"first")
        async with asyncio.timeout(10):
            assert (await producer.send_and_wait(TOPIC, b"second")).offset == 3
        assert len(headers(cluster)) == 1


async def test_what_waits_in_a_transaction_that_has_failed_is_given_up_at_once() -> None:
    """Not when its time is over: nothing could send it any more, and who commits or aborts waits for it."""
    settings = {"transactional_id": "x", "linger_ms": 3_600_000, "batch_size": 100, "delivery_timeout_ms": 7_200_000}
    async with producing(answer(ErrorCode.INVALID_PRODUCER_EPOCH), **settings) as (cluster, producer):
        cluster.scripts[ApiKey.ADD_PARTITIONS_TO_TXN] = [lambda _: AddPartitionsToTxnResponse()]
        cluster.scripts[ApiKey.END_TXN] = [lambda _: EndTxnResponse()]
        await producer.begin_transaction()
        refused = await producer.send(TOPIC, bytes(101))
        waiting = await producer.send(TOPIC, b"v")
        with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
            await refused
        with pytest.raises(TransactionFailedError, match="can only be aborted"):
            await waiting
        await producer.abort_transaction()
        assert len(cluster.asked(ApiKey.PRODUCE)) == 1


async def test_a_record_that_waits_for_room_while_its_transaction_ends_belongs_to_no_other() -> None:
    settings = {"transactional_id": "x", "linger_ms": 3_600_000, "buffer_memory": 600}
    async with producing(**settings) as (cluster, producer):
        cluster.scripts[ApiKey.END_TXN] = [lambda _: EndTxnResponse()]
        await producer.begin_transaction()
        await producer.send(TOPIC, bytes(100))
        waits = asyncio.create_task(producer.send(TOPIC, b"late"))
        await asyncio.sleep(0)
        assert not waits.done()
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(TransactionFailedError):
            await waits
        assert not producer._accumulator
