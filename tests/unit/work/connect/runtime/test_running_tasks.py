"""What a running task stores and commits is never ahead of what is in Kafka."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import TOPIC, FakeCluster

from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message
from penstock.work.connect.api import (
    Changes,
    Position,
    RetriableError,
    Safe,
    SinkRecord,
    SinkTask,
    SourceRecord,
    SourceTask,
)
from penstock.work.connect.calls import Calls
from penstock.work.connect.clients import Clients
from penstock.work.connect.config import parse
from penstock.work.connect.conversion import steps_of
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime import running_tasks
from penstock.work.connect.runtime.generations import FencedError
from penstock.work.connect.runtime.kinds import KEYS
from penstock.work.connect.runtime.records import TaskId
from penstock.work.connect.runtime.running_sink import RunningSink
from penstock.work.connect.runtime.running_tasks import Environment, RunningSource, TaskSetting
from penstock.work.connect.runtime.source_offsets import OffsetStores, Rows, SourceOffsets
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import Attempt
from penstock.work.connect.runtime.tasks import TaskSupervisor

CONFIG = {"name": "c", "connector.class": "penstock.FileSource", "topic": TOPIC}
ONE, TWO = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Kafka(FakeCluster):
    """Counts the records that it has acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged = 0

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if not isinstance(request, ProduceRequest):
            return super().__call__(header, request)
        self.acknowledged += 1
        rows = [
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[
                PartitionProduceResponse(index=row.index, base_offset=0) for row in topic.partition_data
            ])
            for topic in request.topic_data
        ]  # fmt: skip
        return ProduceResponse(responses=rows)


class Host:
    """`TaskHost`: notes what is stored, and how much was acknowledged by then."""

    generation = 0

    def __init__(self, kafka: Kafka) -> None:
        self.stored: list[tuple[int, list[Position | None]]] = []
        self._kafka = kafka

    def owned_until_s(self) -> float:
        return 1e9

    def uses(self, topic: str) -> None:
        pass

    def offsets_known(self, config: Mapping[str, str]) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def offset(self, partition: Position) -> Position | None:
        return None

    def offsets(self) -> Sequence[tuple[Position, Position]]:
        return []

    def rows(self, offsets: Sequence[tuple[Position, Position]]) -> Rows:
        return []

    async def store(self, offsets: Changes) -> None:
        self.stored.append((self._kafka.acknowledged, [offset for _, offset in offsets]))

    def copy(self, offsets: Sequence[tuple[Position, Position]]) -> None:
        raise AssertionError("there are no transactions")

    async def settle(self) -> None: ...


class Setting:
    """What tasks are given, but for the task."""

    def __init__(self, address: str) -> None:
        self.attempt = Attempt(calls=Calls("task"), stopping=asyncio.Event(), begun=lambda: None, written={})
        environment = Environment(
            clients=Clients(bootstrap_servers=address),
            config={},
            providers=Providers({}),
            flush_interval_ms=0,
            flush_timeout_s=60.0,
            shutdown_timeout_s=1.0,
            tracks_topics=False,
            makes_topics=True,
        )
        self.task = TaskSetting(
            number=0, config=CONFIG, environment=environment, steps=steps_of(CONFIG, {}), errors=parse(KEYS, CONFIG)
        )


@asynccontextmanager
async def kafka_and_setting() -> AsyncIterator[tuple[Kafka, Setting]]:
    kafka = Kafka()
    async with fake_broker(kafka) as broker:
        kafka.broker = broker
        setting = Setting(str(broker.address))
        yield kafka, setting
        setting.attempt.calls.close()


class Counting(SourceTask):
    """Two records, one at each poll; then it is told to stop."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.polls = self.commits = 0

    async def start(self, config: Any, context: Any) -> None: ...

    async def poll(self) -> list[SourceRecord]:
        self.polls += 1
        if self.polls > 2:
            self.attempt.stopping.set()
            return []
        line = f"line {self.polls}"
        return [SourceRecord(TOPIC, value=line, source_partition={"file": "f"}, source_offset={"line": self.polls})]

    async def commit(self) -> None:
        self.commits += 1

    async def stop(self) -> None: ...


async def test_offsets_of_a_source_are_stored_when_its_records_are_in_kafka() -> None:
    async with kafka_and_setting() as (kafka, setting):
        task, host = Counting(setting.attempt), Host(kafka)
        await RunningSource(setting.task, task, host, setting.attempt).run()
        assert host.stored == [(1, [{"line": 1}]), (2, [{"line": 2}])]
        assert task.commits == 2


class Stuck(Host):
    """Its first store never ends."""

    def rows(self, offsets: Sequence[tuple[Position, Position]]) -> Rows:
        return []

    async def store(self, offsets: Changes) -> None:
        self.tries += 1
        if self.tries == 1:
            await asyncio.Event().wait()
        await super().store(offsets)

    tries = 0


async def test_a_store_that_lasts_too_long_is_tried_again_with_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    async with kafka_and_setting() as (kafka, setting):
        task, host = Counting(setting.attempt), Stuck(kafka)
        impatient = setting.task.replace(environment=setting.task.environment.replace(flush_timeout_s=1.0))
        await RunningSource(impatient, task, host, setting.attempt).run()
        assert host.stored == [(2, [{"line": 2}])]
        assert task.commits == 1
        assert "offset.flush.timeout.ms" in caplog.text


class Sending(SinkTask):
    """Allows what a test says to be committed."""

    def __init__(self) -> None:
        self.safe: Safe | None = None

    async def start(self, config: Any, context: Any) -> None: ...

    async def put(self, records: Any) -> None: ...

    async def flush(self, offsets: Safe) -> Safe | None:
        return self.safe

    async def stop(self) -> None: ...


class Positions:
    """The consumer of a sink, of which nothing is asked but to commit."""

    def __init__(self, kafka: Kafka) -> None:
        self.committed: list[tuple[int, dict[TopicPartition, int]]] = []
        self._kafka = kafka

    async def commit(self, offsets: Safe) -> None:
        self.committed.append((self._kafka.acknowledged, {one: to.offset for one, to in offsets.items()}))


class Sink:
    """One that runs, as far as its flushes go."""

    def __init__(self, kafka: Kafka, setting: Setting) -> None:
        self.task = Sending()
        self.positions = Positions(kafka)
        self.running = RunningSink(setting.task, self.task, Host(kafka), setting.attempt)
        self.running._consumer = self.positions  # type: ignore[assignment]


async def test_positions_of_a_sink_are_committed_when_what_it_sent_is_in_kafka() -> None:
    async with kafka_and_setting() as (kafka, setting):
        sink = Sink(kafka, setting)
        async with Producer(setting.task.environment.clients.bootstrap_servers, ProducerSettings()) as producer:
            sink.running._deliveries.add(await producer.send(TOPIC, b"dead letter"))
            sink.running._done[ONE] = 7
            await sink.running._flush([ONE])
        assert sink.positions.committed == [(1, {ONE: 7})]


async def test_what_a_sink_does_not_allow_yet_is_offered_again() -> None:
    async with kafka_and_setting() as (kafka, setting):
        sink = Sink(kafka, setting)
        sink.running._done.update({ONE: 7, TWO: 3})
        sink.task.safe = {ONE: OffsetAndMetadata(4), TWO: OffsetAndMetadata(3)}
        await sink.running._flush([ONE, TWO])
        assert sink.running._done == {ONE: 7}, "the rest of it is not safe yet"
        sink.task.safe = None
        await sink.running._flush([ONE, TWO])
        assert sink.running._done == {}
        assert [offsets for _, offsets in sink.positions.committed] == [{ONE: 4, TWO: 3}, {ONE: 7}]


class Beside:
    """A consumer in whose poll a rebalance begins that goes on beside the task; and its sink, which lets others in."""

    def __init__(self, setting: Setting) -> None:
        self.said: list[str] = []
        self.assignment = [ONE, TWO]
        self._stopping = setting.attempt.stopping
        self.running: Any = None
        self.rebalance: asyncio.Task[None] | None = None

    async def say(self, *words: object) -> None:
        for _ in range(3):
            self.said.append(" ".join(map(str, words)))
            await asyncio.sleep(0)

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        self.rebalance = asyncio.create_task(self.running.on_revoked([ONE]))
        await asyncio.sleep(0)
        self._stopping.set()
        return []

    async def commit(self, offsets: Safe) -> None:
        await self.say("commit", *(f"{one.partition}: {to.offset}" for one, to in offsets.items()))

    async def put(self, records: Any) -> None:
        await self.say("put")

    async def flush(self, offsets: Safe) -> None:
        await self.say("flush", *(one.partition for one in offsets))

    async def close(self, partitions: Sequence[TopicPartition]) -> None:
        await self.say("close", *(one.partition for one in partitions))


async def test_a_rebalance_and_the_tasks_own_loop_take_turns() -> None:
    async with kafka_and_setting() as (kafka, setting):
        beside: Any = Beside(setting)
        beside.running = running = RunningSink(setting.task, beside, Host(kafka), setting.attempt)
        running._consumer = beside
        running._done.update({ONE: 7, TWO: 3})
        await running._write(beside)
        await beside.rebalance
        steps = ("flush 0", "commit 0: 7", "close 0", "flush 1", "commit 1: 3", "close 0 1")
        assert beside.said == [step for step in steps for _ in range(3)]


@pytest.mark.parametrize("lost", [True, False])
async def test_partitions_go_when_the_call_that_has_their_records_is_over(lost: bool) -> None:
    async with kafka_and_setting() as (kafka, setting):
        beside: Any = Beside(setting)
        running = RunningSink(setting.task, beside, Host(kafka), setting.attempt)
        running._consumer = beside
        running._done[ONE] = 6
        running._untaken = [SinkRecord(TOPIC, 0, offset=5)]
        putting = asyncio.create_task(running._put(beside))
        await asyncio.sleep(0)
        await (running.on_lost if lost else running.on_revoked)([ONE])
        await putting
        steps = ("put", "close 0") if lost else ("put", "flush 0", "commit 0: 6", "close 0")
        assert beside.said == [step for step in steps for _ in range(3)]


class Busy(Sending):
    """Cannot take anything for so many tries."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self.tries = tries

    async def put(self, records: Any) -> None:
        self.tries -= 1
        if self.tries >= 0:
            raise RetriableError("full")


class BusySource(Counting):
    async def poll(self) -> list[SourceRecord]:
        if self.polls < 2:
            self.polls += 1
            raise RetriableError("away")
        return await super().poll()


def lasting(setting: Setting) -> list[str]:
    """What is told of it."""
    told: list[str] = []
    setting.attempt = setting.attempt.replace(lasts=told.append)
    return told


@pytest.mark.parametrize(("long_s", "told"), [(0.0, ["it has been trying again for 0 s: full", ""]), (9e9, [])])
async def test_tries_of_a_sink_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, long_s: float, told: list[str]
) -> None:
    monkeypatch.setattr(running_tasks, "LONG_S", long_s)
    async with kafka_and_setting() as (kafka, setting):
        said = lasting(setting)
        running = RunningSink(setting.task, Busy(3), Host(kafka), setting.attempt)
        for _ in range(5):
            running._untaken = [SinkRecord(TOPIC, 0, offset=5)]
            await running._tried()
        assert said == told
        assert caplog.text.count("c-0 tries again: full") == 1


async def test_tries_of_a_source_are_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(running_tasks, "LONG_S", 0.0)
    async with kafka_and_setting() as (kafka, setting):
        said = lasting(setting)
        await RunningSource(setting.task, BusySource(setting.attempt), Host(kafka), setting.attempt).run()
        assert said == ["it has been trying again for 0 s: away", ""]
        assert caplog.text.count("c-0 tries again: away") == 1


class Remembering:
    """The log of offsets."""

    def __init__(self) -> None:
        self.written: list[bytes | None] = []

    async def put(self, key: bytes, value: bytes | None) -> None:
        self.written.append(value)


async def test_the_topic_of_dead_letters_is_made_as_the_connector_says_and_by_its_own_client() -> None:
    config = CONFIG | {
        "errors.deadletterqueue.topic.name": "left-out",
        "errors.deadletterqueue.topic.replication.factor": "3",
        "admin.override.client.id": "mine",
    }
    async with kafka_and_setting() as (kafka, setting):
        made = CreateTopicsResponse(topics=[CreatableTopicResult(name="left-out")])
        kafka.scripts[ApiKey.CREATE_TOPICS] = [lambda _: made]
        setting.task = setting.task.replace(config=config, errors=parse(KEYS, config))
        await Sink(kafka, setting).running._make_left_out()
        assert kafka.broker is not None
        header, asked = next(one for one in kafka.broker.requests if one[0].api_key == ApiKey.CREATE_TOPICS)
        assert isinstance(asked, CreateTopicsRequest)
        assert header.client_id == "mine"
        assert [(new.name, new.num_partitions, new.replication_factor) for new in asked.topics] == [("left-out", 1, 3)]


async def test_a_task_that_runs_elsewhere_by_now_stores_nothing() -> None:
    log = Remembering()
    offsets = SourceOffsets(lambda _: log)  # type: ignore[arg-type, return-value]
    environment = Environment(
        clients=Clients(bootstrap_servers=""),
        config={},
        providers=Providers({}),
        flush_interval_ms=0,
        shutdown_timeout_s=1.0,
        tracks_topics=False,
        flush_timeout_s=60.0,
        makes_topics=False,
    )
    statuses: Any = Statuses
    supervisor = TaskSupervisor(
        TaskId("c", 0), statuses, OffsetStores(offsets, "", None), environment, lambda: math.inf
    )
    await supervisor.store([({"file": "f"}, {"line": 1})])
    assert supervisor.owned_until_s() == math.inf
    supervisor.fence()
    with pytest.raises(FencedError, match="runs elsewhere by now"):
        await supervisor.store([({"file": "f"}, {"line": 2})])
    assert supervisor.owned_until_s() == -math.inf
    assert log.written == [b'{"line":1}']
    await supervisor.fenced()
