"""Steps of a controller at work: what is made of records where, what counts, and when it looks again."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.controller_node import CLUSTER, create, started
from tests.unit.node.gated_log import GatedLog

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.features import CORDONED_LEVEL, METADATA_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.node.controlling.broker_lifecycle import BrokerLifecycle
from penstock.node.controlling.driver import RETRY_MS
from penstock.node.controlling.envelope import wrap
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.remote import RemoteController
from penstock.node.controlling.topic_creation import creatable, create_all
from penstock.node.metrics.registry import Registry
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request


@pytest.fixture
def memory(tmp_path: Path) -> GatedLog:
    return GatedLog(tmp_path)


@pytest.mark.parametrize(("partitions", "apart"), [(1, False), (500, True)])
async def test_records_of_a_large_command_become_bytes_in_a_thread_once(
    memory: GatedLog, monkeypatch: pytest.MonkeyPatch, partitions: int, apart: bool
) -> None:
    node = await started(memory)
    encoded, threads = node.log.encoded, list[int]()

    def noting(*words: Any) -> Any:
        threads.append(threading.get_ident())
        return encoded(*words)

    monkeypatch.setattr(node.log, "encoded", noting)
    took = node.metrics.processing_time.count
    await node.submit(create("t", partitions=partitions))
    assert [one != threading.get_ident() for one in threads] == [apart]
    assert node.metrics.processing_time.count == took + 1
    assert node.controller._apart is None
    await node.submit(create("t", partitions=partitions))
    assert len(threads) == 1, "a refusal has no records"
    assert node.metrics.processing_time.count == took + 2
    await node.stop()


@pytest.mark.parametrize(
    ("error", "failures"), [(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), 0), (ValueError("a fault"), 1)]
)
async def test_what_was_due_and_failed_is_tried_again_after_a_while(
    memory: GatedLog, monkeypatch: pytest.MonkeyPatch, error: Exception, failures: int
) -> None:
    node = await started(memory)
    set_to: list[int] = []
    driver = node.controller
    cast("Any", driver)._alarm = SimpleNamespace(set=set_to.append, cancel=lambda: None)
    controller = cast("Any", driver._controller)
    deadlines = {500: 1_000 + RETRY_MS, 1_000 + RETRY_MS: 1_000 + RETRY_MS, 9_000: 9_000}
    before = node.metrics.failures

    def tick(_: int) -> None:
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(type(controller), "tick", lambda self, now_ms: tick(now_ms))
        for deadline_ms in deadlines:
            failing.setattr(type(controller), "next_deadline_ms", deadline_ms)
            driver._wake()
        assert set_to == list(deadlines.values())
        assert node.metrics.failures == before + failures * len(deadlines)
        set_to.clear()
        failing.setattr(type(controller), "tick", lambda self, now_ms: None)
        failing.setattr(type(controller), "next_deadline_ms", 500)
        driver._wake()
        failing.setattr(type(controller), "next_deadline_ms", None)
        driver._wake()
    assert set_to == [500]
    await node.stop()


@pytest.mark.parametrize(
    ("level", "told"),
    [(CORDONED_LEVEL - 1, None), (CORDONED_LEVEL, ["one"]), (CORDONED_LEVEL + 1, ["one"])],
)
async def test_cordoned_directories_are_told_to_whom_that_says_something(level: int, told: Any) -> None:
    image = ClusterImage(CLUSTER)
    image.apply(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
    parts: Any = (SimpleNamespace(cordoned_log_dirs=lambda: ("one",)), image)
    lifecycle = BrokerLifecycle.__new__(BrokerLifecycle)
    lifecycle._identity, lifecycle._image = parts
    assert lifecycle._cordoned() == told


def test_figures_of_a_lease() -> None:
    now_s, registry = [0.0], Registry()
    lease = BrokerLease(9_000, lambda: now_s[0], registry)

    def figures() -> dict[str, float]:
        return {metric.name: value for metric in registry for _, value in metric.samples()}

    assert figures() == {"LeaseRenewedCount": 0, "LeaseLostCount": 0, "IsLeaseOver": 0}
    lease.is_renewed(lease.beats())
    assert figures() == {"LeaseRenewedCount": 1, "LeaseLostCount": 0, "IsLeaseOver": 0}
    now_s[0] = 20.0
    assert figures() == {"LeaseRenewedCount": 1, "LeaseLostCount": 0, "IsLeaseOver": 1}
    lease.is_renewed(lease.beats())
    assert figures() == {"LeaseRenewedCount": 2, "LeaseLostCount": 1, "IsLeaseOver": 0}


def test_a_broker_asks_for_itself_under_no_number() -> None:
    assert wrap(create("t"), 7).request_data == encode_request(create("t"), 7, 0, None)[4:]


def test_all_links_give_up_when_another_node_leads() -> None:
    said: list[str] = []
    remote = RemoteController.__new__(RemoteController)
    cast("Any", remote)._links = [SimpleNamespace(give_up=said.append)] * 3
    remote.give_up()
    assert said == ["another node is the controller now"] * 3


class Active:
    """The active controller: what it was asked, and what it answers."""

    def __init__(self, *codes: ErrorCode, refusal: ErrorCode | None = None) -> None:
        self.asked: list[Any] = []
        self.codes, self.refusal = codes, refusal

    async def submit(self, command: Any, answer: type, *, deadline_s: float, context: Any = None) -> Any:
        self.asked.append((command, answer, context))
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        rows = [
            CreatableTopicResult(name=topic.name, error_code=code)
            for topic, code in zip(command.topics, self.codes, strict=True)
        ]
        return CreateTopicsResponse(topics=rows, throttle_time_ms=70)


PASSING = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


async def test_what_comes_of_topics_that_are_missing() -> None:
    codes = (*PASSING, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION)
    topics = [create(f"t{number}").topics[0] for number in range(len(codes))]
    active: Any = Active(*codes)
    found = await create_all(active, topics)
    assert found == {"t4": ErrorCode.INVALID_TOPIC_EXCEPTION, "t5": ErrorCode.POLICY_VIOLATION}
    ((command, answer, context),) = active.asked
    assert (command.topics, answer, context) == (topics, CreateTopicsResponse, None)
    for code in (*PASSING[1:], ErrorCode.NOT_CONTROLLER):
        found = await create_all(cast("Any", Active(refusal=code)), topics[:2])
        assert found == ({} if code in PASSING else {"t0": code, "t1": code})


@pytest.mark.parametrize("is_charged", [False, True])
async def test_who_has_topics_created_is_charged(is_charged: bool) -> None:
    charged: list[int] = []
    charge: Any = SimpleNamespace(add_ms=charged.append) if is_charged else None
    context = RequestContext(ApiKey.METADATA, 3, 4, "c", cast("Any", None), charge=charge)
    active: Any = Active(ErrorCode.NONE)
    assert await create_all(active, create("t").topics, context) == {}
    assert charged == [70] * is_charged
    told = active.asked[0][2]
    assert (told.api_key, told.client_id, context.api_key) == (ApiKey.CREATE_TOPICS, "c", ApiKey.METADATA)


NAMES = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.replication.factor",
}


@pytest.mark.parametrize("topic", NAMES)
def test_an_internal_topic_has_no_more_replicas_than_there_are_brokers(topic: str) -> None:
    image: Any = SimpleNamespace(brokers={})
    given = {"node.id": "1", "process.roles": "broker,controller"}
    by_default = BrokerConfig(given)
    chosen = BrokerConfig(given | {NAMES[topic]: "3"})
    found = []
    for count in (0, 1, 2, 3, 4):
        image.brokers = dict.fromkeys(range(count))
        found.append(creatable(topic, by_default, image).replication_factor)
        assert creatable(topic, chosen, image).replication_factor == 3
    assert found == [1, 1, 2, 3, 3]
