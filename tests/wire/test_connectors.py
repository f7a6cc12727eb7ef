"""Connectors on a standalone worker, over a real node: built-in ones, and plugins that behave badly."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.work.connect.api import (
    RetriableError,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from penstock.work.connect.config import ConfigError
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.runtime import supervisor
from penstock.work.connect.runtime.records import Status
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.standalone.worker import StandaloneWorker

HERE = __name__
LIMIT_S = 60
Start = Callable[[], Awaitable["Watched"]]


class Watched:
    """A standalone worker, begun with its first connector, whose changes of state can be waited for."""

    def __init__(self, bootstrap: str, folder: Path, shutdown_ms: int = 30_000) -> None:
        self.said: list[tuple[str, RunState, str]] = []
        self.news = asyncio.Event()
        config = {
            "bootstrap.servers": bootstrap,
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "50",
            "task.shutdown.graceful.timeout.ms": str(shutdown_ms),
        }
        self.worker = StandaloneWorker(config)

    async def start(self, config: Mapping[str, str]) -> None:
        if not self.worker.cluster_id:
            await self.worker.start()
            await self.worker.begin([], self._hear)
        await self.worker.create(config)

    async def stop(self) -> None:
        await self.worker.stop()

    def _hear(self, name: str, status: Status) -> None:
        self.said.append((name, RunState[status.state], status.trace or ""))
        self.news.set()

    async def until(self, name: str, state: RunState) -> str:
        async with asyncio.timeout(LIMIT_S):
            while True:
                for one, now, reason in self.said:
                    if (one, now) == (f"task {name}", state):
                        return reason
                self.news.clear()
                await self.news.wait()

    async def until_said(self, words: str) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not any(words in reason for _, _, reason in self.said):
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def worker(bootstrap: str, tmp_path: Path) -> AsyncIterator[Watched]:
    worker = Watched(bootstrap, tmp_path)
    yield worker
    await worker.stop()


@pytest.fixture
async def impatient(bootstrap: str, tmp_path: Path) -> AsyncIterator[Watched]:
    """A worker that soon leaves behind what does not end."""
    worker = Watched(bootstrap, tmp_path, shutdown_ms=2_000)
    yield worker
    await worker.stop()


async def read(bootstrap: str, topic: str, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    settings = ConsumerSettings(group_id=f"readers of {topic}", auto_offset_reset="earliest", metadata_max_age_ms=100)
    async with asyncio.timeout(LIMIT_S), Consumer(bootstrap, settings) as consumer:
        await consumer.subscribe([topic])
        while len(records) < count:
            records += await consumer.poll(1_000)
    return records


async def write(bootstrap: str, topic: str, *values: str) -> None:
    async with Producer(bootstrap) as producer:
        for value in values:
            await producer.send(topic, value.encode())


async def lines_of(path: Path, count: int) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        while not path.exists() or len(path.read_text().splitlines()) < count:
            await asyncio.sleep(0)
    return path.read_text().splitlines()


def source(topic: str, path: Path) -> dict[str, str]:
    return {"name": f"{topic}-source", "connector.class": "FileStreamSource", "file": str(path), "topic": topic}


def sink(topic: str, path: Path, **more: str) -> dict[str, str]:
    config = {"name": f"{topic}-sink", "connector.class": "FileStreamSink", "file": str(path), "topics": topic}
    return config | {key.replace("_", "."): value for key, value in more.items()}


async def test_lines_of_a_file_go_through_a_topic_into_another(
    worker: Watched, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("one\ntwo\nno end yet")
    await worker.start(source(topic, before))
    assert [record.value for record in await read(bootstrap, topic, 2)] == [b"one", b"two"]
    await worker.start(sink(topic, after))
    with before.open("a") as file:
        file.write("!\nfour\n")
    assert await lines_of(after, 4) == ["one", "two", "no end yet!", "four"]


async def test_a_worker_goes_on_where_the_last_one_ended(bootstrap: str, topic: str, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    written: list[str] = []
    for life in range(3):
        worker = Watched(bootstrap, tmp_path)
        with before.open("a") as file:
            file.write(f"line {life}\n")
        written.append(f"line {life}")
        await worker.start(source(topic, before))
        await worker.start(sink(topic, after))
        assert await lines_of(after, len(written)) == written
        await worker.stop()
    assert len(await read(bootstrap, topic, 3)) == 3


def shout(record: SinkRecord) -> object:
    if record.value == "bad":
        raise ValueError("it is bad")
    return None if record.value == "quiet" else [f"{record.value}!", record.replace(value="again")]


async def test_a_sink_makes_its_dead_letter_queue(worker: Watched, bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Before anything is left out, and with the replicas that are asked for."""
    dead, queue = f"{topic}-dead", "errors.deadletterqueue.topic"
    config = {"name": topic, "connector.class": "FileStreamSink", "topics": topic, "file": str(tmp_path / "out")}
    config |= {"errors.tolerance": "all", f"{queue}.name": dead, f"{queue}.replication.factor": "1"}
    await worker.start(config)
    await worker.until(f"{topic}-0", RunState.RUNNING)
    async with Admin(bootstrap) as admin:
        assert dead in await admin.topics.names()


async def test_a_source_makes_its_topic_as_it_says(worker: Watched, bootstrap: str, topic: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\n")
    new = f"{topic}-new"
    creation = {"groups": "new", "new.include": ".*-new", "new.partitions": "3", "new.retention.ms": "1234567"}
    creation |= {"default.partitions": "1", "default.replication.factor": "-1"}
    config = {"name": new, "connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": new}
    await worker.start(config | {f"topic.creation.{key}": value for key, value in creation.items()})
    async with Admin(bootstrap) as admin, asyncio.timeout(LIMIT_S):
        while not await admin.topics.is_there(new):
            await asyncio.sleep(0)
        assert [record.value for record in await read(bootstrap, new, 1)] == [b"one"]
        (made,) = await admin.topics.describe([new])
        assert len(made.partitions) == 3
        entries = await admin.configs.describe(ResourceType.TOPIC, new)
        assert {entry.name: entry.value for entry in entries}["retention.ms"] == "1234567"


async def test_a_function_between_topics(worker: Watched, bootstrap: str, topic: str) -> None:
    await write(bootstrap, topic, "one", "quiet", "bad", "two")
    await worker.start(
        {
            "name": topic,
            "connector.class": "penstock.FunctionConnector",
            "topics": topic,
            "function": f"{HERE}:shout",
            "output.topic": f"{topic}-out",
            "tasks.max": "2",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{topic}-dead",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
    )
    made = await read(bootstrap, f"{topic}-out", 4)
    assert sorted(record.value or b"" for record in made) == [b"again", b"again", b"one!", b"two!"]
    (dead,) = await read(bootstrap, f"{topic}-dead", 1)
    headers = dict(dead.headers)
    assert dead.value == b"bad"
    assert headers["__connect.errors.exception.message"] == b"it is bad"
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.stage"] == b"TASK_PUT"


async def test_a_record_that_cannot_be_converted_ends_the_task_or_is_left_out(
    worker: Watched, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    await write(bootstrap, topic, "1", "one", "2")
    json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "task.restarts.max": "0"}
    await worker.start(sink(topic, tmp_path / "strict") | json | {"name": f"{topic}-strict"})
    await worker.start(sink(topic, tmp_path / "lenient") | json | {"errors.tolerance": "all"})
    trace = await worker.until(f"{topic}-strict-0", RunState.FAILED)
    assert "ConversionError" in trace
    assert "JsonConverter" in trace
    assert await lines_of(tmp_path / "lenient", 2) == ["1", "2"]


class Bad(SourceTask):
    """Behaves as `how` says."""

    never = threading.Event()

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.how = config["how"]
        if self.how == "start":
            raise RuntimeError("it does not start")

    def poll(self) -> Sequence[SourceRecord]:
        if self.how == "poll":
            raise RuntimeError("it does not read")
        if self.how == "garbage":
            return [42]  # type: ignore[list-item]
        if self.how == "block":
            self.never.wait()
        return []

    def stop(self) -> None:
        if self.how == "stop":
            self.never.wait()


class BadConnector(SourceConnector):
    task_class = Bad


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("start", "it does not start"),
        ("poll", "it does not read"),
        ("garbage", "has no attribute"),
        ("block", ""),
        ("stop", ""),
    ],
)
async def test_a_bad_plugin_disturbs_nobody(
    impatient: Watched,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    how: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = impatient
    monkeypatch.setattr(supervisor, "FIRST_RESTART_S", 0.01)
    await worker.start({"name": "bad", "connector.class": f"{HERE}:BadConnector", "how": how, "task.restarts.max": "1"})
    await worker.start(sink(topic, tmp_path / "after"))
    if reason:
        assert reason in await worker.until("bad-0", RunState.FAILED)
        await worker.until_said("it is not started again")
        assert sum(said[:2] == ("task bad-0", RunState.FAILED) for said in worker.said) == 2
    else:
        await worker.until("bad-0", RunState.RUNNING)
    await write(bootstrap, topic, "good")
    assert await lines_of(tmp_path / "after", 1) == ["good"]
    await worker.stop()
    Bad.never.set()
    Bad.never = threading.Event()


class Shaky(SinkTask):
    """Takes each batch only when it comes for the second time."""

    taken: list[str]
    tries: int

    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        type(self).taken, type(self).tries = [], 0

    async def put(self, records: Sequence[SinkRecord]) -> None:
        type(self).tries += 1
        if self.tries % 2:
            raise RetriableError("later")
        self.taken += [record.value for record in records]

    def stop(self) -> None:
        """Nothing is open."""


class ShakyConnector(SinkConnector):
    task_class = Shaky


async def test_what_may_pass_is_tried_again(worker: Watched, bootstrap: str, topic: str) -> None:
    await write(bootstrap, topic, "one", "two")
    await worker.start({"name": topic, "connector.class": f"{HERE}:ShakyConnector", "topics": topic})
    async with asyncio.timeout(LIMIT_S):
        while len(getattr(Shaky, "taken", [])) < 2:
            await asyncio.sleep(0)
    assert Shaky.taken == ["one", "two"]
    assert Shaky.tries >= 2


class Refusing(SinkTask):
    """Takes nothing before `until_s`, by time.monotonic()."""

    until_s: float
    opened: list[int]
    closed: list[int]
    taken: list[str]

    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self.context = context

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.opened.append(len(partitions))

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.closed.append(len(partitions))

    async def put(self, records: Sequence[SinkRecord]) -> None:
        if time.monotonic() < self.until_s:
            self.context.timeout(500)
            raise RetriableError("later")
        self.taken += [record.value for record in records]

    def stop(self) -> None:
        """Nothing is open."""


class RefusingConnector(SinkConnector):
    task_class = Refusing


def refusing(topic: str, for_s: float, **more: str) -> dict[str, str]:
    Refusing.until_s, Refusing.opened, Refusing.closed, Refusing.taken = time.monotonic() + for_s, [], [], []
    return {"name": topic, "connector.class": f"{HERE}:RefusingConnector", "topics": topic, **more}


async def test_a_sink_that_is_not_ready_yet_stays_in_its_group(worker: Watched, bootstrap: str, topic: str) -> None:
    await write(bootstrap, topic, "one", "two")
    often = {"consumer.override.max.poll.interval.ms": "2000", "consumer.override.heartbeat.interval.ms": "100"}
    await worker.start(refusing(topic, 4.5, **often))
    async with asyncio.timeout(LIMIT_S):
        while len(Refusing.taken) < 2:
            await asyncio.sleep(0)
    await write(bootstrap, topic, "three")
    async with asyncio.timeout(LIMIT_S):
        while len(Refusing.taken) < 3:
            await asyncio.sleep(0)
    assert Refusing.taken == ["one", "two", "three"]
    assert (len(Refusing.opened), Refusing.closed) == (1, [])


async def test_others_get_what_a_sink_has_not_taken(worker: Watched, bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        for partition in range(4):
            await producer.send(topic, b"%d" % partition, partition=partition)
    await worker.start(refusing(topic, math.inf))
    async with asyncio.timeout(LIMIT_S):
        while not Refusing.opened:
            await asyncio.sleep(0)
    settings = ConsumerSettings(group_id=f"connect-{topic}", auto_offset_reset="earliest")
    read: set[str] = set()
    async with asyncio.timeout(LIMIT_S), Consumer(bootstrap, settings) as other:
        await other.subscribe([topic])
        while not (theirs := {str(one.partition) for one in other.assignment}) or read != theirs:
            read |= {(record.value or b"").decode() for record in await other.poll(100)}
        Refusing.until_s = 0.0
        while {*Refusing.taken} | read != {"0", "1", "2", "3"}:
            await other.poll(10)
    assert sorted(Refusing.taken) == sorted({"0", "1", "2", "3"} - read)


@pytest.mark.parametrize(
    ("config", "error", "reason"),
    [
        ({"name": "n"}, ConfigError, "connector.class is missing"),
        ({"name": "n", "connector.class": "FileStreamSouce"}, PluginError, "did you mean FileStreamSource"),
        ({"name": "n", "connector.class": "FileStreamSource"}, ConfigError, "file is missing"),
        ({"name": "n", "connector.class": "FileStreamSink"}, ConfigError, "either topics or topics.regex"),
        ({"name": "n", "connector.class": "builtins:dict"}, PluginError, "neither a SourceConnector nor"),
        ({"name": "n", "connector.class": "nowhere:X"}, PluginError, "cannot be loaded"),
    ],
)
async def test_configurations_that_are_wrong(
    worker: Watched, config: dict[str, str], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error) as raised:
        await worker.start(config)
    assert reason in str(raised.value)
    assert worker.worker.state.connectors == {}
