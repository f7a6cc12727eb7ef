import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.metadata_node import CLUSTER, NODE, context, create, start_broker

from penstock.metadata.image import NOBODY, PartitionImage, ResourceType
from penstock.metadata.records import BrokerRegistrationChangeRecord
from penstock.node.api.broker.metadata import metadata
from penstock.node.controlling import topic_creation
from penstock.node.roles.broker import Broker
from penstock.node.serving import parts
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import BEGINS, at_once
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.protocol.schema import Message

NEWEST = 13
ALL_VERSIONS = range(NEWEST + 1)


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    broker, _ = await start_broker(str(tmp_path))
    await create(broker, "flights", partitions=3)
    await create(broker, "delays")
    return broker


async def ask(broker: Broker, request: MetadataRequest, version: int = NEWEST) -> MetadataResponse:
    """The answer after it went over the wire in that version, both ways."""
    asked, _ = decode(MetadataRequest, version, encode(request, version))
    answer = broker.slices.answer(metadata(broker, context(version), asked))
    response = await answer if isinstance(answer, Awaitable) else answer
    return decode(MetadataResponse, version, encode(response, version))[0]


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def only(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_a_topic_in_every_version(broker: Broker, version: int) -> None:
    response = await ask(broker, MetadataRequest(topics=named("flights")), version)
    topic = only(response)
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "flights", False)
    assert [(p.partition_index, p.leader_id, p.replica_nodes) for p in topic.partitions] == [
        (index, NODE, [NODE]) for index in range(3)
    ]
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert topic.topic_id == (broker.image.topics["flights"].topic_id if version >= 10 else UUID(int=0))
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(NODE, "127.0.0.1", 9092)]
    assert response.brokers[0].rack == ("east" if version >= 1 else None)
    assert response.controller_id == (NODE if version >= 1 else NOBODY)
    assert response.cluster_id == (CLUSTER if version >= 2 else None)


async def test_a_topic_is_told_of_once_however_often_it_is_named(broker: Broker) -> None:
    flights = broker.image.topics["flights"].topic_id
    by_id = [MetadataRequestTopic(topic_id=flights, name=None)] * 2
    response = await ask(broker, MetadataRequest(topics=[*named("flights", "x", "flights", "x"), *by_id]))
    assert [topic.name for topic in response.topics] == ["flights", "x", "flights"]


async def test_no_topics_means_all_in_version_0_and_none_later(broker: Broker) -> None:
    assert [topic.name for topic in (await ask(broker, MetadataRequest(), 0)).topics] == ["flights", "delays"]
    for version in ALL_VERSIONS[1:]:
        assert (await ask(broker, MetadataRequest(), version)).topics == []
        everything = await ask(broker, MetadataRequest(topics=None), version)
        assert [topic.name for topic in everything.topics] == ["flights", "delays"]


@pytest.mark.parametrize(("most", "begins_first"), [(1, True), (2, False)])
async def test_the_names_of_very_many_topics_are_held_once_the_answer_has_begun(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, most: int, begins_first: bool
) -> None:
    monkeypatch.setattr(parts, "NAMES_HELD", most)
    steps = metadata(broker, context(NEWEST), MetadataRequest(topics=None))
    work: object = None
    with suppress(StopIteration):
        work = next(steps)
    assert (work is BEGINS) == begins_first
    if work is BEGINS:
        await create(broker, "later")
        with pytest.raises(StopIteration) as ended:
            next(steps)
        assert [topic.name for topic in ended.value.value.topics] == ["flights", "delays", "later"]


async def test_partitions_of_the_same_nodes_share_a_list(broker: Broker) -> None:
    answer = at_once(metadata(broker, context(NEWEST), MetadataRequest(topics=named("flights"))))
    first, *others = only(answer).partitions
    assert all(other.replica_nodes is first.replica_nodes is other.isr_nodes for other in others)


async def test_by_id(broker: Broker) -> None:
    known, unknown = broker.image.topics["delays"].topic_id, UUID(int=99)
    asked = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in (known, unknown)]
    first, second = (await ask(broker, MetadataRequest(topics=asked))).topics
    assert (first.name, first.error_code) == ("delays", 0)
    assert (second.name, second.error_code, second.topic_id) == (None, ErrorCode.UNKNOWN_TOPIC_ID, unknown)


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_10_and_11_know_no_ids(broker: Broker, version: int) -> None:
    asked = [MetadataRequestTopic(name=None, topic_id=broker.image.topics["delays"].topic_id)]
    assert only(await ask(broker, MetadataRequest(topics=asked), version)).error_code == ErrorCode.INVALID_REQUEST
    assert (
        only(await ask(broker, MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version)).error_code
        == ErrorCode.INVALID_REQUEST
    )


async def test_an_unknown_topic_is_created_and_answered_at_once(broker: Broker) -> None:
    topic = only(await ask(broker, MetadataRequest(topics=named("new"))))
    assert topic.error_code == ErrorCode.NONE
    assert len(topic.partitions) == broker.config.num_partitions
    assert "new" in broker.image.topics


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 250])
async def test_an_invalid_name_fails_and_creates_nothing(broker: Broker, version: int, name: str) -> None:
    topic = only(await ask(broker, MetadataRequest(topics=named(name)), version))
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(broker.image.topics) == {"flights", "delays"}


async def test_a_name_that_collides_is_not_created(broker: Broker) -> None:
    await create(broker, "a.b")
    assert only(await ask(broker, MetadataRequest(topics=named("a_b")))).error_code == 17


async def test_the_request_can_forbid_creation(broker: Broker) -> None:
    topic = only(await ask(broker, MetadataRequest(topics=named("new"), allow_auto_topic_creation=False)))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "new" not in broker.image.topics


async def test_topics_that_are_there_do_not_wait_for_a_controller_that_is_not(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    waits_s: list[float] = []

    def nobody(
        command: Message, answer: type[Message], *, deadline_s: float, context: RequestContext
    ) -> asyncio.Future[Message]:
        waits_s.append(deadline_s - loop.time())
        late: asyncio.Future[Message] = loop.create_future()
        late.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        return late

    monkeypatch.setattr(broker.controller, "submit", nobody)
    known, new = (await ask(broker, MetadataRequest(topics=named("flights", "new")))).topics
    assert waits_s == [pytest.approx(topic_creation.LONGEST_WAIT_MS / 1000, abs=1)]
    assert (known.name, known.error_code) == ("flights", ErrorCode.NONE)
    assert (new.name, new.error_code) == ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "clients ask again"


async def test_topics_are_created_for_the_client_that_asks(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its quotas count for them as for those that it creates by CreateTopics."""
    asked: list[RequestContext] = []
    told_ms: list[int] = []

    async def too_many(command: Any, answer: Any, *, deadline_s: float, context: RequestContext) -> Any:
        asked.append(context)
        late = [
            CreatableTopicResult(name=it.name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED) for it in command.topics
        ]
        return CreateTopicsResponse(topics=late, throttle_time_ms=700)

    monkeypatch.setattr(broker.controller, "submit", too_many)
    by = context(NEWEST)
    by.charge = cast("Any", SimpleNamespace(add_ms=told_ms.append))
    answer = broker.slices.answer(metadata(broker, by, MetadataRequest(topics=named("new"))))
    topic = only(await cast("Any", answer))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "clients ask again"
    assert [(it.session, it.client_id, it.api_key) for it in asked] == [(by.session, by.client_id, 19)]
    assert told_ms == [700]


async def test_versions_before_4_always_allow_creation(broker: Broker) -> None:
    assert only(await ask(broker, MetadataRequest(topics=named("new")), 3)).error_code == ErrorCode.NONE


async def test_the_configuration_can_forbid_creation(tmp_path: Path) -> None:
    broker, _ = await start_broker(str(tmp_path), {"auto.create.topics.enable": "false"})
    topic = only(await ask(broker, MetadataRequest(topics=named("new"))))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_internal_topic_is_created_as_it_must_be_and_marked(broker: Broker) -> None:
    topic = only(await ask(broker, MetadataRequest(topics=named("__consumer_offsets"))))
    assert topic.is_internal
    assert len(topic.partitions) == broker.config.offsets_topic_num_partitions
    assert broker.image.config_of(ResourceType.TOPIC, "__consumer_offsets")["cleanup.policy"] == "compact"


async def test_a_failed_creation_is_told(tmp_path: Path) -> None:
    broker, log = await start_broker(str(tmp_path))
    log.sync_error = OSError("gone")
    topic = only(await ask(broker, MetadataRequest(topics=named("new"))))
    assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_brokers_are_told_as_the_listener_sees_them(broker: Broker) -> None:
    request = MetadataRequest(topics=named("delays"))
    inside = broker.slices.answer(metadata(broker, context(NEWEST, "BROKERS"), request))
    assert isinstance(inside, MetadataResponse)
    assert [(b.host, b.port) for b in inside.brokers] == [("10.0.0.1", 9093)]
    nowhere = broker.slices.answer(metadata(broker, context(NEWEST, "SSL"), request))
    assert isinstance(nowhere, MetadataResponse)
    assert nowhere.brokers == []
    assert nowhere.topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND


async def test_without_a_leader(broker: Broker) -> None:
    broker.image.apply(BrokerRegistrationChangeRecord(broker_id=NODE, fenced=1))
    response = await ask(broker, MetadataRequest(topics=named("delays")))
    (partition,) = only(response).partitions
    assert response.brokers == []
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, NOBODY)
    assert partition.offline_replicas == [NODE]


async def test_what_the_client_may_do_is_told_if_asked(broker: Broker) -> None:
    silent = await ask(broker, MetadataRequest(topics=named("delays")), 8)
    assert silent.cluster_authorized_operations == only(silent).topic_authorized_operations == -(2**31)
    request = MetadataRequest(
        topics=named("delays", ""), include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    told = await ask(broker, request, 8)
    assert told.cluster_authorized_operations == 0b1111110100000
    assert [topic.topic_authorized_operations for topic in told.topics] == [0b110111111000] * 2, "there or not"


async def test_the_cost_is_not_that_of_topics_not_asked_for(broker: Broker) -> None:
    class Untouchable(dict[int, PartitionImage]):
        def items(self) -> None:  # type: ignore[override]
            raise AssertionError("looked at a topic that nobody asked for")

    broker.image.topics["flights"].partitions = Untouchable()
    assert only(await ask(broker, MetadataRequest(topics=named("delays")))).error_code == 0
