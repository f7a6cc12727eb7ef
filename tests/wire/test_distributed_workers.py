"""Workers that share connectors, over a real node: who runs what, what is kept in topics, and what survives whom."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from tests.wire.connect_workers import LIMIT_S, Workers

from penstock import __version__
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigAdmin, ResourceType
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.api import SinkConnector, SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.distributed.topic_log import TopicLog
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.source_offsets import SourceOffsets

HERE = __name__
IN_GOOD_ORDER = {"task_shutdown_graceful_timeout_ms": "30000"}
"""What tasks have read is stored before they end, also on a busy machine."""


@pytest.fixture
async def workers(bootstrap: str, topic: str) -> AsyncIterator[Workers]:
    workers = Workers(bootstrap, topic, **IN_GOOD_ORDER)
    yield workers
    await workers.stop()


@pytest.fixture
async def impatient(bootstrap: str, topic: str) -> AsyncIterator[Workers]:
    """Workers that soon do without one that is silent."""
    workers = Workers(bootstrap, topic, session_timeout_ms="6000")
    yield workers
    await workers.stop()


class CountTask(SourceTask):
    """Writes numbers from where it was left; `up.to` is the first that it does not write."""

    starts: ClassVar[list[str]] = []

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.config = config
        self.partition = {"part": config["part"]}
        self.next = (context.offset(self.partition) or {"next": 0})["next"]
        type(self).starts.append(f"{config['name']}-{config['part']}@{self.next}")

    def poll(self) -> Sequence[SourceRecord]:
        if self.next >= int(self.config["up.to"]):
            return []
        self.next += 1
        value = f"{self.config['part']}:{self.next - 1}"
        return [
            SourceRecord(
                self.config["topic"], value=value, source_partition=self.partition, source_offset={"next": self.next}
            )
        ]

    def stop(self) -> None:
        """Nothing is open."""


class Count(SourceConnector):
    task_class = CountTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "part": str(number)} for number in range(max_tasks)]


def count(name: str, tasks: int, up_to: int) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": f"{HERE}:Count",
        "topic": f"{name}-numbers",
        "tasks.max": str(tasks),
        "up.to": str(up_to),
    }


async def contents(bootstrap: str, topic: str) -> dict[str, object]:
    """The last value of each key."""
    found: dict[str, object] = {}
    async with Consumer(bootstrap, ConsumerSettings(auto_offset_reset="earliest")) as consumer:
        partitions = await consumer.partitions_for(topic)
        await consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        left = {partition for partition, end in ends.items() if end}
        while left:
            for record in await consumer.poll(1_000):
                assert record.key is not None
                found[record.key.decode()] = json.loads(record.value) if record.value else None
                if record.offset + 1 >= ends[record.topic_partition]:
                    left.discard(record.topic_partition)
    return found


async def numbers(bootstrap: str, topic: str, tasks: int, up_to: int) -> list[bytes]:
    """All values, when each number of each task is among them."""
    wanted = {f"{task}:{number}".encode() for task in range(tasks) for number in range(up_to)}
    values: list[bytes] = []
    settings = ConsumerSettings(auto_offset_reset="earliest", metadata_max_age_ms=100)
    async with asyncio.timeout(LIMIT_S), Consumer(bootstrap, settings) as consumer:
        await consumer.cluster.topic(topic, create=True)  # its first record may be under way
        await consumer.assign(await consumer.partitions_for(topic))
        while not wanted <= set(values):
            values += [record.value or b"" for record in await consumer.poll(1_000)]
    return values


class IdleTask(SourceTask):
    """Has nothing to read, and tells of its beginning and its end."""

    begun: ClassVar[list[str]] = []
    ended: ClassVar[list[str]] = []

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.name = f"{config['name']}-{config['part']}"
        self.begun.append(self.name)

    async def poll(self) -> Sequence[SourceRecord]:
        await asyncio.sleep(0.1)
        return []

    def stop(self) -> None:
        self.ended.append(self.name)


class Idle(SourceConnector):
    task_class = IdleTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "part": str(number)} for number in range(max_tasks)]


async def test_tasks_are_shared_and_everything_is_in_topics(workers: Workers, bootstrap: str, topic: str) -> None:
    for name in ("one:1", "two:2", "three:3"):
        await workers.add(name)
    await workers.create(count(topic, 6, 10))
    owners = await workers.until_running(topic, 6)
    assert sorted(owners) == ["one:1"] * 2 + ["three:3"] * 2 + ["two:2"] * 2
    await numbers(bootstrap, f"{topic}-numbers", 6, 10)
    await workers.until(lambda: len(workers.all[0].offsets.all_of(topic)) == 6)
    await workers.until(lambda: all(offset == {"next": 10} for _, offset in workers.all[0].offsets.all_of(topic)))

    configs = await contents(bootstrap, f"{topic}-configs")
    assert configs[f"connector-{topic}"] == {"properties": count(topic, 6, 10)}
    assert configs[f"commit-{topic}"] == {"tasks": 6}
    task = configs[f"task-{topic}-5"]
    assert isinstance(task, dict)
    assert task["properties"]["part"] == "5"
    assert task["properties"]["task.class"] == f"{HERE}:CountTask"
    offsets = await contents(bootstrap, f"{topic}-offsets")
    assert offsets[f'["{topic}",{{"part":"3"}}]'] == {"next": 10}
    statuses = await contents(bootstrap, f"{topic}-statuses")
    leader = await workers.leader()
    told = statuses[f"status-connector-{topic}"]
    assert isinstance(told, dict)
    assert 0 < told.pop("generation") <= leader.group.machine.generation
    assert told == {"state": "RUNNING", "trace": None, "worker_id": leader.worker_id, "version": __version__}
    assert f"status-topic-{topic}-numbers:connector-{topic}" in statuses
    async with Admin(bootstrap) as admin:
        described = {row.name: row for row in await admin.topics.describe([f"{topic}-configs", f"{topic}-offsets"])}
        assert [len(row.partitions) for row in described.values()] == [1, 2]
        entries = await admin.configs.describe(ResourceType.TOPIC, f"{topic}-statuses")
        assert {entry.value for entry in entries if entry.name == "cleanup.policy"} == {"compact"}


@pytest.mark.parametrize(
    ("asked", "method"), [(ConfigAdmin, "describe"), (Consumer, "partitions_for"), (TopicLog, "_ends")]
)
async def test_a_worker_waits_until_a_broker_has_heard_of_its_topics(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, asked: type, method: str
) -> None:
    answer = getattr(asked, method)
    refused: list[object] = []

    async def too_early(self: object, *arguments: object) -> object:
        if not refused:
            refused.append(arguments)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic does not exist")
        return await answer(self, *arguments)

    monkeypatch.setattr(asked, method, too_early)
    await workers.add("a")
    assert refused


async def test_what_does_not_change_is_not_stopped(workers: Workers, topic: str) -> None:
    CountTask.starts.clear()
    await workers.add("one:1")
    await workers.create(count("stays", 2, 0) | {"topic": topic})
    await workers.create(count("changes", 2, 0) | {"topic": topic})
    await workers.until_running("stays", 2)
    await workers.until_running("changes", 2)
    await workers.create(count("changes", 1, 3) | {"topic": topic})
    await workers.until(lambda: "changes-0@0" in CountTask.starts[4:])
    await workers.until(lambda: list(workers.statuses.tasks("changes")) == [0])
    await workers.until_running("changes", 1)
    assert sorted(CountTask.starts[:4]) == ["changes-0@0", "changes-1@0", "stays-0@0", "stays-1@0"]
    assert CountTask.starts[4:] == ["changes-0@0"]


async def test_it_is_paused_resumed_stopped_and_deleted(workers: Workers, topic: str) -> None:
    worker = await workers.add("one:1")
    await workers.create(count(topic, 2, 0))
    await workers.until_running(topic, 2)
    await worker.leading.set_target(topic, Target.PAUSED)
    await workers.until(lambda: [one.state for one in workers.statuses.tasks(topic).values()] == ["PAUSED"] * 2)
    await workers.until(lambda: workers.statuses.connector(topic).state == "PAUSED")  # type: ignore[union-attr]
    await worker.leading.set_target(topic, Target.STARTED)
    await workers.until_running(topic, 2)
    await worker.leading.set_target(topic, Target.STOPPED)
    await workers.until(lambda: not workers.statuses.tasks(topic))
    await workers.until(lambda: workers.statuses.connector(topic).state == "STOPPED")  # type: ignore[union-attr]
    await worker.leading.set_target(topic, Target.STARTED)
    await workers.until_running(topic, 2)
    await worker.leading.delete_connector(topic)
    await workers.until(lambda: topic not in workers.statuses.connectors())
    await workers.until(lambda: not worker.group.machine.running)


async def test_a_worker_goes_and_others_go_on_where_it_was(workers: Workers, bootstrap: str, topic: str) -> None:
    CountTask.starts.clear()
    await workers.add("one:1")
    await workers.add("two:2")
    await workers.create(count(topic, 4, 5))
    await workers.until_running(topic, 4)
    await numbers(bootstrap, f"{topic}-numbers", 4, 5)
    leader = await workers.leader()
    workers.all.remove(leader)
    await leader.stop()
    (left,) = workers.all
    await workers.until(lambda: {one.worker_id for one in left.statuses.tasks(topic).values()} == {left.worker_id})
    await workers.until_running(topic, 4)
    await workers.create(count(topic, 4, 8))
    values = await numbers(bootstrap, f"{topic}-numbers", 4, 8)
    assert len(values) == len(set(values))


def stored(offsets: SourceOffsets, name: str, position: int) -> bool:
    return offsets.get(name, {"part": "0"}) == {"next": position}


async def test_a_cluster_that_starts_again_knows_everything(bootstrap: str, topic: str) -> None:
    CountTask.starts.clear()
    for life in range(2):
        workers = Workers(bootstrap, topic, **IN_GOOD_ORDER)
        await workers.add("one:1")
        if not life:
            await workers.create(count(topic, 1, 5))
        await workers.until_running(topic)
        await numbers(bootstrap, f"{topic}-numbers", 1, 5)
        offsets = workers.all[0].offsets
        await workers.until(partial(stored, offsets, topic, 5))
        await workers.stop()
    assert CountTask.starts == [f"{topic}-0@0", f"{topic}-0@5"]


async def test_a_task_that_fails_is_told_with_its_trace(
    workers: Workers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: CountTask) -> Sequence[SourceRecord]:
        raise RuntimeError("there is nothing to count")

    await workers.add("one:1")
    with monkeypatch.context() as changed:
        changed.setattr(CountTask, "poll", fail)
        await workers.create(count(topic, 1, 5) | {"task.restarts.max": "0"})
        await workers.until(lambda: [one.state for one in workers.statuses.tasks(topic).values()] == ["FAILED"])
    (status,) = workers.statuses.tasks(topic).values()
    assert status.trace is not None
    assert "there is nothing to count" in status.trace.splitlines()[0]
    assert "Traceback" in status.trace
    workers.all[0].tasks.restart(workers.all[0].state.task_ids(topic)[0])
    await workers.until_running(topic)
    (status,) = workers.statuses.tasks(topic).values()
    assert status.trace is None


class Broken(SinkConnector):
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return ["garbage"]  # type: ignore[list-item]


async def test_a_connector_that_returns_garbage_says_so(workers: Workers, topic: str) -> None:
    await workers.add("one:1")
    broken = {"name": topic, "connector.class": f"{HERE}:Broken", "topics": topic, "task.restarts.max": "0"}
    await workers.create(broken)
    await workers.until(lambda: getattr(workers.statuses.connector(topic), "state", "") == "FAILED")
    await workers.create(count("good", 1, 0))
    await workers.until_running("good")


async def test_a_worker_that_is_cut_off_stores_nothing_and_decides_nothing(
    impatient: Workers, bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows no sign of life: others have its tasks, and what it finds out later it must not write."""
    workers = impatient
    lost = await workers.add("lost:1")
    other = await workers.add("other:2")
    await workers.create(count(topic, 2, 0))
    await workers.until_running(topic, 2)
    assert lost.group._ticking is not None
    lost.group._ticking.cancel()
    monkeypatch.setattr(lost.group, "_set_timer", lambda: None)
    supervisors = dict(lost.tasks._supervisors)
    await workers.until(lambda: len(other.group.machine.running) == 2)
    assert not lost.may_lead()
    monkeypatch.undo()
    lost.group._tick()
    assert all(supervisor.is_fenced for supervisor in supervisors.values())
    await workers.until(lambda: {one.worker_id for one in other.statuses.tasks(topic).values()} == {"other:2"})


async def test_a_java_workers_topics_are_read(workers: Workers, bootstrap: str, topic: str) -> None:
    """What Kafka's own workers have written, with what we do not know among it."""
    CountTask.starts.clear()
    config = count(topic, 1, 3)
    async with Admin(bootstrap) as admin:
        for store, partitions in (("configs", 1), ("offsets", 2)):
            compact = {"cleanup.policy": "compact"}
            await admin.topics.create(NewTopic(name=f"{topic}-{store}", partitions=partitions, configs=compact))
    async with Producer(bootstrap) as producer:
        for key, value in (
            ("session-key", {"key": "AAAA", "algorithm": "HmacSHA256", "creation-timestamp": 1}),
            (f"connector-{topic}", {"properties": config}),
            (f"task-{topic}-0", {"properties": {"part": "0", "task.class": "org.example.Task"}}),
            (f"commit-{topic}", {"tasks": 1}),
            (f"tasks-fencing-{topic}", {"task-count": 1}),
            (f"target-state-{topic}", {"state": "STARTED", "state.v2": "STARTED"}),
        ):
            await producer.send_and_wait(f"{topic}-configs", json.dumps(value).encode(), key=key.encode(), partition=0)
        partition = f'["{topic}",{{"part":"0"}}]'
        await producer.send_and_wait(f"{topic}-offsets", b'{"next":2}', key=partition.encode())
    await workers.add("one:1")
    await workers.until_running(topic)
    assert CountTask.starts[-1] == f"{topic}-0@2"


async def test_a_worker_of_five_that_is_back_in_time_stops_nobody_elses_task(bootstrap: str, topic: str) -> None:
    workers = Workers(bootstrap, topic, scheduled_rebalance_max_delay_ms="300000")
    try:
        for number in range(5):
            await workers.add(f"worker:{number}")
        await workers.create(count(topic, 60, 0) | {"connector.class": f"{HERE}:Idle"})
        owners = await workers.until_running(topic, 60)
        assert {owner: owners.count(owner) for owner in owners} == {f"worker:{number}": 12 for number in range(5)}
        IdleTask.begun.clear()
        IdleTask.ended.clear()
        leader = await workers.leader()
        leaves = next(worker for worker in workers.all if worker is not leader)
        its = {f"{topic}-{number}" for number, owner in enumerate(owners) if owner == leaves.worker_id}
        await leaves.stop()
        workers.all.remove(leaves)
        await workers.until(lambda: all(worker.group.machine.assignment.step.waiting for worker in workers.all))  # type: ignore[union-attr]
        await workers.add(leaves.worker_id)
        await workers.until(lambda: set(IdleTask.begun) == its)
        assert await workers.until_running(topic, 60) == owners
        assert (sorted(IdleTask.begun), sorted(IdleTask.ended)) == (sorted(its), sorted(its))
    finally:
        await workers.stop()


async def test_a_value_that_stands_in_a_file_is_written_down_as_a_reference(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("one\n")
    (tmp_path / "secrets").write_text(f"path={tmp_path}/lines\n")
    workers = Workers(bootstrap, topic, config_providers="mine", config_providers_mine_class="FileConfigProvider")
    worker = await workers.add("one:1")
    reference = f"${{mine:{tmp_path}/secrets:path}}"
    config = {"name": f"{topic}-from", "connector.class": "FileStreamSource", "topic": topic, "file": reference}
    await workers.create(config)
    await workers.until_running(f"{topic}-from")
    async with asyncio.timeout(LIMIT_S):
        while worker.offsets.get(f"{topic}-from", {"filename": f"{tmp_path}/lines"}) != {"position": 4}:
            await asyncio.sleep(0.01)
    known = worker.state.connectors[f"{topic}-from"]
    assert known.config["file"] == known.tasks[0]["file"] == reference
    await workers.stop()
