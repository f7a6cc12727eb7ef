"""What Apache Kafka's own tests of Connect's REST interface expect, played against ours; each says whose it is."""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from tests.wire.connect_asking import Asking
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.client.producer import Producer
from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.standalone.worker import StandaloneWorker

HERE = __name__


class SeveralTask(SourceTask):
    """Counts its starts and stops, and fails where the configuration says so, while it does."""

    starts: ClassVar[Counter[str]] = Counter()
    begun: ClassVar[dict[str, int]] = {}
    failing: ClassVar[set[str]] = set()

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.name = f"{config['name']}-{config['task.id']}"
        self.partition = {"task.id": self.name}
        self.saved = (context.offset(self.partition) or {"saved": 0})["saved"]
        self.topic = config["topic"]
        self.starts[self.name] += 1
        self.begun[self.name] = self.saved
        if self.name in self.failing:
            raise RuntimeError("it is to fail")

    async def poll(self) -> Sequence[SourceRecord]:
        if self.saved >= 10:
            return []
        self.saved += 1
        return [
            SourceRecord(self.topic, value="x", source_partition=self.partition, source_offset={"saved": self.saved})
        ]

    def stop(self) -> None:
        """Nothing is open."""


class Several(SourceConnector):
    """As many tasks as it may have; raises in `start` or `stop` where its configuration says so."""

    task_class = SeveralTask
    starts: ClassVar[Counter[str]] = Counter()
    failing: ClassVar[set[str]] = set()
    blocking: ClassVar[threading.Event] = threading.Event()

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self.starts[config["name"]] += 1
        if config.get("how") == "block":
            self.blocking.wait(LIMIT_S)
        if config.get("how") == "start" or config["name"] in self.failing:
            raise RuntimeError("it is not to start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "task.id": str(number)} for number in range(int(self.config.get("wants", max_tasks)))]

    def stop(self) -> None:
        if self.config.get("how") == "stop":
            raise RuntimeError("it is not to stop")


class Abstract:
    """Neither converter nor predicate."""


@pytest.fixture(autouse=True)
def anew() -> None:
    Several.starts, Several.failing = Counter(), set()
    SeveralTask.starts, SeveralTask.begun, SeveralTask.failing = Counter(), {}, set()


def several(topic: str, tasks: int = 4, **more: str) -> dict[str, str]:
    return {
        "connector.class": f"{HERE}:Several",
        "topic": topic,
        "tasks.max": str(tasks),
        "task.restarts.max": "0",
        **more,
    }


async def states(asking: Asking, name: str, connector: str, *tasks: str) -> Any:
    """Wait until they are like this; the status."""
    wanted = (connector, list(tasks))
    async with asyncio.timeout(LIMIT_S):
        while True:
            status, found = await asking.ask("GET", f"/connectors/{name}/status")
            now = (found["connector"]["state"], [task["state"] for task in found["tasks"]]) if status == 200 else None
            if now == wanted:
                return found
            await asyncio.sleep(0.02)


async def without_tasks(asking: Asking, name: str) -> None:
    assert (await asking.ask("GET", f"/connectors/{name}"))[1]["tasks"] == []
    assert (await asking.ask("GET", f"/connectors/{name}/tasks"))[1] == []


DLQ = "errors.deadletterqueue.topic.name"
FILTER, TOMBSTONE = (
    "org.apache.kafka.connect.transforms.Filter",
    "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
)
WRONG = f"{HERE}:Abstract"


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, 0),
        ({"topics": None}, 2),
        ({"topics.regex": "r.*"}, 2),
        ({DLQ: "t1"}, 1),
        ({"topics": None, "topics.regex": "r.*", DLQ: "ruh.roh"}, 1),
        ({"transforms": "t, t", "transforms.t.type": FILTER}, 1),
        ({"transforms": "t", "transforms.t.type": "WheresTheFruit"}, 1),
        ({"transforms": "t", "transforms.t.type": WRONG}, 1),
        ({"transforms": "t", "transforms.t.type": FILTER, "transforms.t.negate": "true"}, 1),
        ({"predicates": "p, p", "predicates.p.type": TOMBSTONE}, 1),
        ({"predicates": "p", "predicates.p.type": "WheresTheFruit"}, 1),
        ({"predicates": "p", "predicates.p.type": WRONG}, 1),
        *(({key: plugin}, 1) for key in ("key.converter", "header.converter") for plugin in ("WheresTheFruit", WRONG)),
        ({"value.converter": "JsonConverter", "value.converter.schemas.enable": "notaboolean"}, 1),
    ],
)
async def test_how_many_errors_a_configuration_has(alone: Asking, changes: dict[str, str | None], errors: int) -> None:
    """ConnectorValidationIntegrationTest."""
    config = {"name": "n", "connector.class": "FileStreamSink", "file": "f", "topics": "t1", **changes}
    sent = {key: value for key, value in config.items() if value is not None}
    status, found = await alone.ask("PUT", "/connector-plugins/FileStreamSink/config/validate", sent)
    assert (status, found["error_count"]) == (200, errors), [row for row in found["configs"] if row["value"]["errors"]]
    assert (await alone.ask("POST", "/connectors", {"name": "n", "config": sent}))[0] == (400 if errors else 201)


@pytest.mark.parametrize("named", [{}, {"consumer.override.group.id": "GROUP"}])
async def test_a_sink_must_not_read_as_the_workers_group(sharing: Asking, topic: str, named: dict[str, str]) -> None:
    """ConnectorValidationIntegrationTest."""
    group = sharing.leader.worker.settings["group.id"] if sharing.leader.worker else ""
    config = {"name": "n", "connector.class": "FileStreamSink", "file": "f", "topics": "t1"}
    config |= dict.fromkeys(named, group)
    path = "/connector-plugins/FileStreamSink/config/validate"
    assert (await sharing.ask("PUT", path, config))[1]["error_count"] == len(named)


async def test_it_is_paused_stopped_and_resumed_again_and_again(asking: Asking, topic: str) -> None:
    """ConnectWorkerIntegrationTest: pause, stop, resume; more and fewer tasks; a change of single keys."""
    await asking.ask("PUT", "/connectors/c/config", several(topic))
    await states(asking, "c", "RUNNING", *["RUNNING"] * 4)
    for _ in range(2):
        assert (await asking.settled("PUT", "/connectors/c/stop"))[0] == 204
    await states(asking, "c", "STOPPED")
    await without_tasks(asking, "c")
    for _ in range(2):
        assert (await asking.settled("PUT", "/connectors/c/resume"))[0] == 202
    await states(asking, "c", "RUNNING", *["RUNNING"] * 4)
    for _ in range(2):
        assert (await asking.settled("PUT", "/connectors/c/pause"))[0] == 202
    await states(asking, "c", "PAUSED", *["PAUSED"] * 4)
    assert (await asking.settled("PUT", "/connectors/c/stop"))[0] == 204
    await states(asking, "c", "STOPPED")
    await without_tasks(asking, "c")
    assert (await asking.settled("PUT", "/connectors/c/pause"))[0] == 202
    await states(asking, "c", "PAUSED")
    assert (await asking.settled("PUT", "/connectors/c/resume"))[0] == 202
    await states(asking, "c", "RUNNING", *["RUNNING"] * 4)
    for tasks in (6, 2):
        change = {"tasks.max": str(tasks), "added": "a", "removed": None}
        status, changed = await asking.ask("PATCH", "/connectors/c/config", change)
        assert (status, changed["config"]) == (200, several(topic, tasks, name="c", added="a"))
        await states(asking, "c", "RUNNING", *["RUNNING"] * tasks)
    assert (await asking.ask("DELETE", "/connectors/c"))[0] == 204
    await asking.until("/connectors", [])


async def test_what_raises_is_stopped_and_mended(asking: Asking, topic: str) -> None:
    """ConnectWorkerIntegrationTest: the state STOPPED with connectors that raise, and too many tasks."""
    await asking.ask("PUT", "/connectors/c/config", several(topic, how="start"))
    failed = await states(asking, "c", "FAILED")
    assert "it is not to start" in failed["connector"]["trace"]
    await asking.ask("PUT", "/connectors/c/stop")
    await states(asking, "c", "STOPPED")
    await without_tasks(asking, "c")
    await asking.ask("PUT", "/connectors/c/config", several(topic, 2))
    await asking.ask("PUT", "/connectors/c/resume")
    await states(asking, "c", "RUNNING", *["RUNNING"] * 2)
    await asking.ask("PUT", "/connectors/c/config", several(topic, 2, how="stop"))
    await asking.ask("PUT", "/connectors/c/stop")
    await states(asking, "c", "STOPPED")
    await asking.ask("PUT", "/connectors/c/resume")
    await states(asking, "c", "RUNNING", *["RUNNING"] * 2)
    await asking.ask("PUT", "/connectors/c/config", several(topic, 2, wants="3"))
    async with asyncio.timeout(LIMIT_S):
        while "tasks.max" not in (await states(asking, "c", "FAILED", *["RUNNING"] * 2))["connector"]["trace"]:
            await asyncio.sleep(0.02)
    await asking.ask("DELETE", "/connectors/c")
    await asking.until("/connectors", [])


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
async def test_it_is_created_at_rest(asking: Asking, topic: str, state: str) -> None:
    """ConnectWorkerIntegrationTest, StandaloneWorkerIntegrationTest: initial states, offsets before it ever ran."""
    body = {"name": "c", "config": several(topic, 2), "initial_state": state}
    assert (await asking.ask("POST", "/connectors", body))[0] == 201
    await states(asking, "c", state)
    await without_tasks(asking, "c")
    offsets = [{"partition": {"task.id": f"c-{number}"}, "offset": {"saved": 8 + number}} for number in range(2)]
    status, _ = await asking.ask("PATCH", "/connectors/c/offsets", {"offsets": offsets})
    assert status == (200 if state == "STOPPED" else 400)
    await asking.ask("PUT", "/connectors/c/resume")
    await states(asking, "c", "RUNNING", *["RUNNING"] * 2)
    if state == "STOPPED":
        for change in offsets:
            change["offset"] = {"saved": 10}
        async with asyncio.timeout(LIMIT_S):
            while sorted((await asking.ask("GET", "/connectors/c/offsets"))[1]["offsets"], key=str) != offsets:
                await asyncio.sleep(0.02)
        assert SeveralTask.begun == {"c-0": 8, "c-1": 9}
    assert (await asking.ask("DELETE", "/connectors/c"))[0] == 204


async def test_offsets_of_what_is_not_stopped(asking: Asking, topic: str) -> None:
    """OffsetsApiIntegrationTest."""
    change = {"offsets": [{"partition": {"task.id": "c-0"}, "offset": {"saved": 5}}]}
    for verb, body in (("GET", None), ("PATCH", change), ("DELETE", None)):
        assert (await asking.ask(verb, "/connectors/c/offsets", body))[0] == 404
    await asking.ask("PUT", "/connectors/c/config", several(topic, 1))
    for path, state in ((None, "RUNNING"), ("pause", "PAUSED")):
        if path:
            await asking.ask("PUT", f"/connectors/c/{path}")
        await states(asking, "c", state, state)
        assert (await asking.ask("PATCH", "/connectors/c/offsets", change))[0] == 400
        assert (await asking.ask("DELETE", "/connectors/c/offsets"))[0] == 400


async def test_offsets_of_a_sink_with_a_group_of_its_own(
    alone: Asking, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """OffsetsApiIntegrationTest: the overridden group, bodies that cannot be, and a group that others read with."""
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait(topic, b"x", partition=0)
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": topic}
    await alone.ask("PUT", "/connectors/s/config", config | {"consumer.override.group.id": f"{topic}-own"})
    where = {"kafka_topic": topic, "kafka_partition": 0}
    await alone.until("/connectors/s/offsets", [{"partition": where, "offset": {"kafka_offset": 1}}], "offsets")
    await alone.ask("PUT", "/connectors/s/stop")
    await states(alone, "s", "STOPPED")
    to = {"kafka_offset": 5}
    bad: list[Any] = [
        {},
        {"offsets": []},
        {"offsets": [{"partition": None, "offset": to}]},
        {"offsets": [{"offset": to}]},
        {"offsets": [{"partition": {"kafka_topic": topic}, "offset": to}]},
        {"offsets": [{"partition": where | {"kafka_partition": "not a number"}, "offset": to}]},
        {"offsets": [{"partition": where, "offset": {"key": "value"}}]},
        {"offsets": [{"partition": where, "offset": {"kafka_offset": "not a number"}}]},
    ]
    for body in bad:
        assert (await alone.ask("PATCH", "/connectors/s/offsets", body))[0] == 400, body
    none = {"offsets": [{"partition": where, "offset": None}]}
    assert (await alone.ask("PATCH", "/connectors/s/offsets", none))[0] == 200
    assert (await alone.ask("GET", "/connectors/s/offsets"))[1] == {"offsets": []}
    for _ in range(2):
        assert (await alone.ask("DELETE", "/connectors/s/offsets"))[0] == 200


@pytest.mark.parametrize(
    ("query", "failing", "connector", "tasks"),
    [
        ("", (), 1, (0, 0)),
        ("onlyFailed=false&includeTasks=true", (), 1, (1, 1)),
        ("onlyFailed=true&includeTasks=false", (), 0, (0, 0)),
        ("onlyFailed=true&includeTasks=true", (), 0, (0, 0)),
        ("onlyFailed=false&includeTasks=false", (0, 1), 1, (0, 0)),
        ("onlyFailed=true&includeTasks=true", (0, 1), 0, (1, 1)),
        ("onlyFailed=true&includeTasks=false", (0, 1), 0, (0, 0)),
        ("onlyFailed=false&includeTasks=true", (0, 1), 1, (1, 1)),
        ("onlyFailed=true&includeTasks=true", (1,), 0, (0, 1)),
    ],
)
async def test_what_a_restart_starts(
    alone: Asking, topic: str, query: str, failing: tuple[int, ...], connector: int, tasks: tuple[int, int]
) -> None:
    """ConnectorRestartApiIntegrationTest."""
    assert (await alone.ask("POST", f"/connectors/c/restart?{query}"))[0] == 404
    SeveralTask.failing = {f"c-{number}" for number in failing}
    await alone.ask("PUT", "/connectors/c/config", several(topic, 2))
    before = ["FAILED" if number in failing else "RUNNING" for number in range(2)]
    await states(alone, "c", "RUNNING", *before)
    SeveralTask.failing = set()
    begun = Several.starts["c"], SeveralTask.starts["c-0"], SeveralTask.starts["c-1"]
    status, said = await alone.ask("POST", f"/connectors/c/restart?{query}")
    is_plain = "true" not in query
    assert status == (204 if is_plain else 202)
    if not is_plain:
        restarting = [said["connector"]["state"], *(task["state"] for task in said["tasks"])]
        assert [state == "RESTARTING" for state in restarting] == [bool(times) for times in (connector, *tasks)]
    wanted = [first + times for first, times in zip(begun, (connector, *tasks), strict=True)]
    async with asyncio.timeout(LIMIT_S):
        while [Several.starts["c"], SeveralTask.starts["c-0"], SeveralTask.starts["c-1"]] != wanted:
            await asyncio.sleep(0.01)
    after = ["RUNNING" if times else now for now, times in zip(before, tasks, strict=True)]
    await states(alone, "c", "RUNNING", *after)
    assert [Several.starts["c"], SeveralTask.starts["c-0"], SeveralTask.starts["c-1"]] == wanted


async def test_a_connector_that_has_failed_starts_again(alone: Asking, topic: str) -> None:
    """ConnectorRestartApiIntegrationTest: with any flags a connector without tasks is tried again."""
    Several.failing = {"c"}
    await alone.ask("PUT", "/connectors/c/config", several(topic, 1))
    await states(alone, "c", "FAILED")
    for begun, query in enumerate(("onlyFailed=false", "includeTasks=true", "onlyFailed=true&includeTasks=true"), 1):
        await alone.ask("POST", f"/connectors/c/restart?{query}")
        async with asyncio.timeout(LIMIT_S):
            while Several.starts["c"] != begun + 1:
                await asyncio.sleep(0.01)
        await states(alone, "c", "FAILED")
    Several.failing = set()
    await alone.ask("POST", "/connectors/c/restart?onlyFailed=true")
    await states(alone, "c", "RUNNING", "RUNNING")


async def test_topics_of_a_connector_that_is_no_more(asking: Asking, topic: str) -> None:
    """ConnectorTopicsIntegrationTest."""
    await asking.ask("PUT", "/connectors/c/config", several(topic, 1))
    await asking.until("/connectors/c/topics", [topic], "c", "topics")
    await asking.ask("DELETE", "/connectors/c")
    await asking.until("/connectors/c/topics", [], "c", "topics")


@pytest.mark.parametrize(("key", "looking"), [("topic.tracking.enable", 403), ("topic.tracking.allow.reset", 200)])
async def test_topics_that_are_not_tracked(bootstrap: str, topic: str, tmp_path: Path, key: str, looking: int) -> None:
    """ConnectorTopicsIntegrationTest."""
    config = {
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": "http://127.0.0.1:0",
        key: "false",
    }
    async with (
        RunningWorker(StandaloneWorker, worker_config(bootstrap, topic) | config) as running,
        aiohttp.ClientSession(running.server.urls[0]) as session,
    ):
        assert (await session.get("/connectors/c/topics")).status == looking
        assert (await session.put("/connectors/c/topics/reset")).status == 403


async def test_what_blocks_holds_up_nobody_else(asking: Asking, topic: str) -> None:
    """BlockingConnectorTest: beside a connector whose start does not return others are created, stopped and deleted."""
    Several.blocking.clear()
    try:
        await asking.ask("PUT", "/connectors/slow/config", several(topic, 1, how="block"))
        await asking.ask("PUT", "/connectors/c/config", several(topic, 1))
        await states(asking, "c", "RUNNING", "RUNNING")
        assert (await asking.ask("PUT", "/connectors/c/stop"))[0] == 204
        await states(asking, "c", "STOPPED")
        assert (await asking.ask("DELETE", "/connectors/slow"))[0] == 204
        assert (await asking.ask("DELETE", "/connectors/c"))[0] == 204
        await asking.until("/connectors", [])
    finally:
        Several.blocking.set()
