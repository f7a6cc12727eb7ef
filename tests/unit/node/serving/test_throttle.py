"""What a request costs its client, where the answer says so, and who is not counted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.metadata.quotas.records import quota

from penstock.metadata.quotas.machine import ClientBuckets, Windows
from penstock.metadata.security_records import ClientQuotaRecord
from penstock.node.serving import throttle
from penstock.node.serving.connections import Admitted
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.throttle import HEARTBEATS, ClientThrottle, RequestCharge, tell
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.requests import produce
from penstock.protocol.requests.api import KEYS, ApiKey, OwnApiKey, api_of
from penstock.protocol.requests.framing import decode_response, encode_request, encode_response
from penstock.protocol.requests.topic_answers import NodeEndpoint as NodeEndpointAt

SESSION = Session("10.0.0.1", 1, "CLIENTS", 1, Principal("User", "ada"))
SHARE = quota("request_percentage", 10, user="ada")
"""100 ms in each second."""


class Muted:
    def __init__(self, session: Session = SESSION) -> None:
        self.session: Session | None = session
        self.seconds: list[float] = []

    def mute(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Never(LateAnswer[None]):
    def call_off(self) -> None: ...


def is_node(session: Session, client_id: str) -> bool:
    return session.listener == "NODES" and client_id == "app"


class World:
    def __init__(self, *records: ClientQuotaRecord, window_s: float = 1) -> None:
        self.now_s = 100.0
        windows = Windows(window_s)
        self.throttle = ClientThrottle(windows, lambda: self.now_s, [OwnApiKey.HAND_OVER_LEADER], is_node)
        self.throttle.replace(records)
        self.connection = Muted()

    @property
    def buckets(self) -> ClientBuckets:
        return self.throttle.machine.client("ada", "app", self.throttle.now_ms())

    def begin(self, key: ApiKey | OwnApiKey, session: Session = SESSION, *, size: int = 0) -> RequestCharge | None:
        api = api_of(key)
        frame = encode_request(api.request_class(), api.versions[-1], 1, "app")[4:] + bytes(size)
        found = self.throttle.begin(memoryview(frame), cast("Admitted", self.connection), session)
        return None if found is None else found[1]

    def answer(self, key: ApiKey | OwnApiKey, took_s: float, *, size: int = 0, waits_s: float = 0) -> int:
        """The time that the answer tells, in ms."""
        charge = self.begin(key, size=size)
        assert charge is not None
        self.now_s += took_s
        if waits_s:
            charge.waits(Never())
            self.now_s += waits_s
        api = api_of(key)
        parts: list[ResponsePart] = [encode_response(api.response_class(), key, api.versions[-1], 1)]
        charge.answered(parts)
        return told(parts, key, api.versions[-1])


def told(parts: list[ResponsePart], key: int, version: int) -> int:
    response: Any = decode_response(key, version, cast("bytes", parts[0])[4:])[1]
    return int(response.throttle_time_ms)


def test_strangers_owe_nothing_before_they_log_in_so_that_others_can() -> None:
    world = World(quota("request_percentage", 10, user=None))
    stranger = Session("10.0.0.1", 1, "CLIENTS", 1, security_protocol="SASL_SSL")
    assert world.begin(ApiKey.API_VERSIONS, stranger) is None
    known = stranger.replace(principal=Principal("User", "ada"), mechanism="PLAIN")
    assert world.begin(ApiKey.API_VERSIONS, known) is not None
    assert world.begin(ApiKey.API_VERSIONS, stranger.replace(security_protocol="PLAINTEXT")) is not None


def test_the_time_of_the_event_loop_is_counted_and_that_of_waiting_is_not() -> None:
    world = World(SHARE)
    assert world.answer(ApiKey.METADATA, 0.1) == 0
    told_ms = world.answer(ApiKey.METADATA, 0.02, waits_s=0.1)
    assert told_ms == pytest.approx(80, abs=1), "20 ms were taken, and 12 have come meanwhile"
    assert world.connection.seconds == [told_ms / 1000]


async def test_each_step_of_a_long_answer_is_counted_and_what_others_do_in_between_is_not() -> None:
    world = World(SHARE)
    charge = world.begin(ApiKey.METADATA)
    assert charge is not None

    async def steps() -> str:
        for _ in range(3):
            world.now_s += 0.1
            await asyncio.sleep(0)
        return "done"

    async def others() -> None:
        world.now_s += 7

    whole = asyncio.ensure_future(charge.waits(steps()))
    for _ in range(2):
        await asyncio.gather(others(), asyncio.sleep(0))
    assert await whole == "done"
    charge.answered([encode_response(api_of(ApiKey.METADATA).response_class(), ApiKey.METADATA, 13, 1)])
    request = world.buckets.request
    assert request is not None
    assert request.taken == pytest.approx(300)


async def test_what_is_counted_is_called_off_with_the_one_who_waits_and_fails_as_it_is() -> None:
    charge = World(SHARE).begin(ApiKey.METADATA)
    assert charge is not None
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("called off")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("its own")

    whole = asyncio.ensure_future(charge.waits(waits()))
    await asyncio.sleep(0)
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert ended == ["called off"]
    with pytest.raises(KeyError, match="its own"):
        await charge.waits(fails())


def test_what_a_produce_request_takes_is_counted_in_bytes_and_in_time() -> None:
    world = World(SHARE, quota("producer_byte_rate", 1000, client_id="app"))
    assert world.answer(ApiKey.PRODUCE, 0.1, size=1200) > 0
    assert world.answer(ApiKey.METADATA, 0) == 0, "no records are in it"
    assert world.answer(ApiKey.PRODUCE, 0.05, size=0) == pytest.approx(450, abs=1), "the longer time of both"


def test_an_answer_with_records_is_told_of_with_the_next_fetch() -> None:
    world = World(quota("consumer_byte_rate", 1000, user="ada"))
    first = world.begin(ApiKey.FETCH)
    assert first is not None
    assert (first.fetch_owed_ms(), first.most_fetched) == (0, 250)
    records: list[ResponsePart] = [bytes(1500)]
    first.answered(records)
    assert (records, world.connection.seconds) == ([bytes(1500)], [])
    second = world.begin(ApiKey.FETCH)
    assert second is not None
    assert second.fetch_owed_ms() == 500
    empty: list[ResponsePart] = [encode_response(api_of(ApiKey.FETCH).response_class(), ApiKey.FETCH, 18, 1)]
    second.answered(empty)
    assert world.connection.seconds == [0.5]
    third = world.begin(ApiKey.FETCH)
    assert third is not None
    assert third.fetch_owed_ms() == 500, "an empty answer costs nothing"


def test_a_follower_is_not_counted() -> None:
    world = World(quota("consumer_byte_rate", 1000, user="ada"), SHARE)
    charge = world.begin(ApiKey.FETCH)
    assert charge is not None
    charge.is_of_a_node()
    assert charge.most_fetched == 2**63 - 1
    world.now_s += 10
    charge.answered([bytes(100_000)])
    assert world.connection.seconds == []
    assert world.begin(ApiKey.FETCH).fetch_owed_ms() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "session"),
    [
        (OwnApiKey.HAND_OVER_LEADER, SESSION),
        (ApiKey.PRODUCE, SESSION.replace(listener="NODES")),
        (ApiKey.PRODUCE, SESSION.replace(principal=Principal("User", "bob"))),
    ],
)
def test_nodes_and_those_without_a_quota_cost_nothing(key: ApiKey, session: Session) -> None:
    assert World(SHARE).begin(key, session) is None


@pytest.mark.parametrize("key", sorted(HEARTBEATS))
def test_a_heartbeat_is_held_back_for_a_second_at_most_and_that_is_said(
    key: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, throttle.logger.name)
    world = World(SHARE, window_s=60)
    for _ in range(2):
        assert world.answer(key, 20) == 1000
    assert world.answer(ApiKey.METADATA, 0) > 300_000
    assert world.connection.seconds[:2] == [1, 1]
    (said,) = caplog.messages
    assert "User:ada exceeds its request_percentage; its heartbeats are held back for 1000 ms at most" in said


def test_what_the_controller_found_is_told_and_muted_for() -> None:
    world = World(quota("controller_mutation_rate", 1, user="ada"))
    charge = world.begin(ApiKey.CREATE_TOPICS)
    assert charge is not None
    charge.add_ms(1500)
    parts: list[ResponsePart] = [encode_response(api_of(ApiKey.CREATE_TOPICS).response_class(), 19, 7, 1)]
    charge.answered(parts)
    assert (told(parts, 19, 7), world.connection.seconds) == (1500, [1.5])


def test_who_leaves_before_the_answer_has_paid() -> None:
    world = World(SHARE, quota("producer_byte_rate", 1000, user="ada"))
    gone = world.begin(ApiKey.PRODUCE, size=2000)
    assert gone is not None
    world.now_s += 0.2
    gone.waits(Never())
    request, producer = world.buckets.request, world.buckets.producer
    assert request is not None
    assert producer is not None
    assert request.owed_ms(world.throttle.now_ms()) == pytest.approx(1000, abs=1)
    assert producer.owed_ms(world.throttle.now_ms()) == pytest.approx(830, abs=30)


def test_ids_of_any_length_take_little_memory() -> None:
    world = World(quota("producer_byte_rate", 1000, user=None, client_id=None))
    for number in range(3):
        client_id = "x" * 30_000 + str(number)
        frame = encode_request(api_of(ApiKey.PRODUCE).request_class(), 13, 1, client_id)[4:]
        world.throttle.begin(memoryview(frame), cast("Admitted", world.connection), SESSION)
    ((share, _),) = world.throttle.machine.items(world.throttle.now_ms())
    assert len(share.client_id or "") == 1024


def test_a_request_without_an_answer_is_muted_for_as_well() -> None:
    world = World(quota("producer_byte_rate", 1000, user="ada"))
    charge = world.begin(ApiKey.PRODUCE, size=2000)
    assert charge is not None
    charge.answered([])
    assert world.connection.seconds[0] > 1


def test_the_time_has_its_place_in_every_answer() -> None:
    """All that brokers may answer, in each version that has the field; the rest of the answer stays as it is."""
    for key in KEYS:
        api = api_of(key)
        field = api.response_class.__fields__.get("throttle_time_ms")
        for version in api.versions:
            whole = encode_response(api.response_class(), key, version, 7)
            parts: list[ResponsePart] = [whole]
            tell(parts, key, version, 123_456)
            if field is None or not field.is_in(version):
                assert parts == [whole]
                continue
            expected: Any = api.response_class()
            expected.throttle_time_ms = 123_456
            assert parts == [encode_response(expected, key, version, 7)], (key, version)


def test_the_time_has_its_place_in_answers_with_more_in_them() -> None:
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t",
                partition_responses=[
                    PartitionProduceResponse(
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=3),
                    )
                ],
            )
        ],
        node_endpoints=[NodeEndpoint(node_id=2, host="b", port=9092)],
    )
    versions = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, max_version=2)], finalized_features_epoch=9)
    for key, version, response in ((ApiKey.PRODUCE, 12, produced), (ApiKey.API_VERSIONS, 4, versions)):
        parts: list[ResponsePart] = [encode_response(response, key, version, 7)]
        tell(parts, key, version, 5)
        assert parts == [encode_response(response.replace(throttle_time_ms=5), key, version, 7)]


def test_the_time_is_behind_what_may_be_long_in_answers_to_produce_alone() -> None:
    """Those are decoded for it while they are short; no other API's may be long."""
    found = {key for key in KEYS for version in api_of(key).versions if throttle._place(key, version) == 0}
    assert found == {ApiKey.PRODUCE, ApiKey.API_VERSIONS}


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("version", produce.VERSIONS)
def test_no_long_answer_is_decoded_for_the_time(
    monkeypatch: pytest.MonkeyPatch, version: int, is_elsewhere: bool
) -> None:
    topic = UUID(int=7) if version >= 13 else "t"
    answers = [produce.encode_appended(version, 3, 17, 12, 4)] * 2_000
    endpoints = [NodeEndpointAt(2, "b", 9092, None)] if is_elsewhere else []
    parts: list[ResponsePart] = [*produce.encode_produce_response([(topic, answers)], version, 41, endpoints)]
    monkeypatch.setattr(throttle, "decode_response", None)
    tell(parts, ApiKey.PRODUCE, version, 5)
    data = b"".join(cast("list[bytes]", parts))
    assert int.from_bytes(data[:4]) == len(data) - 4
    told: Any = decode_response(ApiKey.PRODUCE, version, data[4:])[1]
    assert (told.throttle_time_ms, len(told.responses[0].partition_responses)) == (5, 2_000)
    assert len(told.node_endpoints) == (is_elsewhere and version >= produce.LEADER_FROM)


@pytest.mark.parametrize("version", [6, 77, 32_767])
def test_the_answer_to_versions_that_nobody_knows_has_no_place_for_the_time(version: int) -> None:
    """A newer client asks so, and hears in version 0 what there is."""
    world = World(SHARE)
    assert world.answer(ApiKey.METADATA, 1)
    frame = bytearray(encode_request(api_of(ApiKey.API_VERSIONS).request_class(), 3, 1, "app")[4:])
    frame[2:4] = version.to_bytes(2, "big")
    begun = world.throttle.begin(memoryview(frame), cast("Admitted", world.connection), SESSION)
    assert begun is not None
    answer = encode_response(
        ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18)]),
        *(ApiKey.API_VERSIONS, 0, 1),
    )
    parts: list[ResponsePart] = [answer]
    begun[0](parts)
    assert parts == [answer]
    assert len(world.connection.seconds) == 2, "it waits all the same"


def test_addresses_are_refused_and_what_is_refused_is_not_counted() -> None:
    world = World(quota("connection_creation_rate", 1, ip="10.0.0.1"))
    assert [world.throttle.refuses("10.0.0.1") for _ in range(5)] == [False, False, True, True, True]
    assert not world.throttle.refuses("10.0.0.2")
    world.now_s += 1
    assert not world.throttle.refuses("10.0.0.1")
