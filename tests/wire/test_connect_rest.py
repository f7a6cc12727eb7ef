"""Kafka Connect's REST interface: its shapes and status codes.

Asked are a worker that shares connectors and does not lead, or one that leads, and a worker that stands alone.
"""

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import aiohttp
import pytest
from kafka_connect import KafkaConnect
from tests.wire.connect_asking import Asking
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.client.producer import Producer
from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest import server
from penstock.work.connect.rest.errors import ElsewhereError
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.running import RunningWorker


def source(tmp_path: Path, topic: str, **more: str) -> dict[str, str]:
    (tmp_path / "lines").write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": topic}
    return config | {key.replace("_", "."): value for key, value in more.items()}


async def test_a_connector_from_its_creation_to_its_end(asking: Asking, topic: str, tmp_path: Path) -> None:
    config = source(tmp_path, topic)
    assert (await asking.ask("GET", "/connectors"))[1] == []
    body = {"name": "lines", "config": config | {"tasks.max": 1}}
    status, created = await asking.ask("POST", "/connectors", body)
    full = config | {"name": "lines", "tasks.max": "1"}
    assert (status, created) == (201, {"name": "lines", "config": full, "tasks": [], "type": "source"})
    again, refused = await asking.ask("POST", "/connectors", body)
    assert (again, refused["error_code"]) == (409, 409)
    running = await asking.until_running("lines")
    assert running["type"] == "source"
    assert {running["connector"]["worker_id"]} == {asking.leader.worker.worker_id}  # type: ignore[union-attr]
    assert [task["id"] for task in running["tasks"]] == [0]
    assert (await asking.ask("GET", "/connectors"))[1] == ["lines"]
    expanded = (await asking.ask("GET", "/connectors?expand=info&expand=status"))[1]
    assert expanded["lines"].keys() == {"info", "status"}
    assert expanded["lines"]["info"]["tasks"] == [{"connector": "lines", "task": 0}]
    assert (await asking.ask("GET", "/connectors/lines/config"))[1] == full
    assert (await asking.ask("GET", "/connectors/lines/"))[0] == 200
    tasks = (await asking.ask("GET", "/connectors/lines/tasks"))[1]
    assert tasks[0]["id"] == {"connector": "lines", "task": 0}
    assert (await asking.ask("GET", "/connectors/lines/tasks-config"))[1] == {"lines-0": tasks[0]["config"]}
    await asking.until("/connectors/lines/topics", [topic], "lines", "topics")
    assert (await asking.ask("PUT", "/connectors/lines/topics/reset"))[0] == 202
    assert await asking.ask("DELETE", "/connectors/lines") == (204, None)
    assert (await asking.ask("GET", "/connectors/lines"))[0] == 404
    await asking.until("/connectors", [])


async def test_the_worker_that_has_a_task_shows_its_figures(asking: Asking, topic: str, tmp_path: Path) -> None:
    await asking.ask("PUT", "/connectors/lines/config", source(tmp_path, topic))
    read = 'penstock_connect_task_records_total{connector="lines",task="0"} 2\n'
    pages: list[tuple[str, str]] = []
    async with asyncio.timeout(LIMIT_S):
        while sum(read in page for _, page in pages) != 1:
            pages = []
            for worker in asking.workers:
                async with asking.session.get(f"{worker.server.urls[0]}/metrics") as answer:
                    pages.append((answer.headers["Content-Type"], await answer.text()))
    assert {kind for kind, _ in pages} == {"text/plain; version=0.0.4; charset=utf-8"}
    await asking.ask("DELETE", "/connectors/lines")


async def test_it_is_configured_paused_stopped_and_started_again(asking: Asking, topic: str, tmp_path: Path) -> None:
    config = source(tmp_path, topic)
    assert (await asking.ask("PUT", "/connectors/lines/config", config))[0] == 201
    await asking.until_running("lines")
    status, changed = await asking.ask("PATCH", "/connectors/lines/config", {"batch.size": 7, "tasks.max": None})
    assert (status, changed["config"]) == (200, config | {"name": "lines", "batch.size": "7"})
    assert (await asking.ask("PUT", "/connectors/lines/config", config))[0] == 200
    assert (await asking.ask("PUT", "/connectors/lines/pause"))[0] == 202
    await asking.until("/connectors/lines/tasks/0/status", "PAUSED", "state")
    assert (await asking.ask("PUT", "/connectors/lines/resume"))[0] == 202
    await asking.until_running("lines")
    assert await asking.ask("POST", "/connectors/lines/restart") == (204, None)
    status, plan = await asking.ask("POST", "/connectors/lines/restart?includeTasks=true")
    assert status == 202
    assert [plan["connector"]["state"], plan["tasks"][0]["state"]] == ["RESTARTING"] * 2
    await asking.until_running("lines")
    for leader in (True, False):
        assert await asking.ask("POST", "/connectors/lines/tasks/0/restart", leader=leader) == (204, None)
    await asking.until_running("lines")
    assert (await asking.ask("PUT", "/connectors/lines/stop"))[0] == 204
    await asking.until("/connectors/lines/status", "STOPPED", "connector", "state")
    assert (await asking.ask("GET", "/connectors/lines/tasks"))[1] == []


async def test_the_offsets_of_a_source(asking: Asking, topic: str, tmp_path: Path) -> None:
    config = source(tmp_path, topic)
    await asking.ask("PUT", "/connectors/lines/config", config)
    part = {"filename": config["file"]}
    await asking.until("/connectors/lines/offsets", [{"partition": part, "offset": {"position": 8}}], "offsets")
    change = {"offsets": [{"partition": part, "offset": {"position": 4}}]}
    assert (await asking.ask("PATCH", "/connectors/lines/offsets", change))[0] == 400
    await asking.ask("PUT", "/connectors/lines/stop")
    await asking.until("/connectors/lines/tasks", [])
    status, said = await asking.ask("PATCH", "/connectors/lines/offsets", change)
    assert (status, list(said)) == (200, ["message"])
    assert (await asking.ask("GET", "/connectors/lines/offsets"))[1] == change
    wrongs: list[object] = [{"offsets": []}, {"offsets": [{"offset": {}}]}, []]
    nonsense: list[object] = [{"position": "four"}, {"position": -1}, {"position": True}, {}]
    wrongs += [{"offsets": [{"partition": part, "offset": offset}]} for offset in nonsense]
    for wrong in wrongs:
        assert (await asking.ask("PATCH", "/connectors/lines/offsets", wrong))[0] == 400
    assert (await asking.ask("DELETE", "/connectors/lines/offsets"))[0] == 200
    assert (await asking.ask("GET", "/connectors/lines/offsets"))[1] == {"offsets": []}


class LingeringTask(SourceTask):
    """Reads one record, and ends only when it is let go; what it has read is stored after that."""

    let_go: ClassVar[threading.Event]

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.records = [SourceRecord(config["topic"], value="x", source_partition={"p": 1}, source_offset={"at": 9})]

    def poll(self) -> Sequence[SourceRecord]:
        self.let_go.wait(LIMIT_S)
        records, self.records = self.records, []
        return records

    def stop(self) -> None:
        """Nothing is open."""


class Lingering(SourceConnector):
    task_class = LingeringTask


async def test_offsets_are_changed_when_the_last_task_has_ended(sharing: Asking, topic: str) -> None:
    LingeringTask.let_go = threading.Event()
    config = {"connector.class": f"{__name__}:Lingering", "topic": topic}
    await sharing.ask("PUT", "/connectors/slow/config", config)
    await sharing.until_running("slow")
    await sharing.ask("PUT", "/connectors/slow/stop")
    await sharing.until("/connectors/slow/tasks", [])
    change = {"offsets": [{"partition": {"p": 1}, "offset": {"at": 4}}]}
    changing = asyncio.create_task(sharing.ask("PATCH", "/connectors/slow/offsets", change, leader=True))
    leader = sharing.leader.worker
    assert leader is not None
    async with asyncio.timeout(LIMIT_S):
        while leader.group.machine.in_hand != frozenset(("connector-task-slow-0",)) and not changing.done():
            await asyncio.sleep(0.01)
    LingeringTask.let_go.set()
    assert (await changing)[0] == 200
    async with asyncio.timeout(LIMIT_S):
        while any(one.worker is not None and one.worker.group.machine.running for one in sharing.workers):
            await asyncio.sleep(0.01)
    assert (await sharing.ask("GET", "/connectors/slow/offsets"))[1] == change


async def test_the_offsets_of_a_sink(asking: Asking, bootstrap: str, topic: str, tmp_path: Path) -> None:
    async with Producer(bootstrap) as producer:
        for _ in range(3):
            await producer.send_and_wait(topic, b"x", partition=0)
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": topic}
    name = f"{topic}-sink"
    await asking.ask("PUT", f"/connectors/{name}/config", config)
    where = {"kafka_topic": topic, "kafka_partition": 0}
    path = f"/connectors/{name}/offsets"
    await asking.until(path, [{"partition": where, "offset": {"kafka_offset": 3}}], "offsets")
    await asking.ask("PUT", f"/connectors/{name}/stop")
    await asking.until(f"/connectors/{name}/status", "STOPPED", "connector", "state")
    change = {"offsets": [{"partition": where | {"kafka_partition": "0"}, "offset": {"kafka_offset": "1"}}]}
    assert (await asking.ask("PATCH", path, change))[0] == 200
    expected = [{"partition": where, "offset": {"kafka_offset": 1}}]
    assert (await asking.ask("GET", path))[1] == {"offsets": expected}
    for partition, offset in (({"x": 1}, None), (where, -1), (where, 1.5), (where, True), (where, "1_0")):
        at = None if offset is None else {"kafka_offset": offset}
        assert (await asking.ask("PATCH", path, {"offsets": [{"partition": partition, "offset": at}]}))[0] == 400
    assert (await asking.ask("DELETE", path))[0] == 200
    assert (await asking.ask("GET", path))[1] == {"offsets": []}


REFUSED: Final[Sequence[tuple[str, str, object, int]]] = (
    ("GET", "/connectors/none", None, 404),
    ("GET", "/connectors/none/status", None, 404),
    ("GET", "/connectors/none/tasks/x/status", None, 404),
    ("DELETE", "/connectors/none", None, 404),
    ("PUT", "/connectors/none/pause", None, 404),
    ("POST", "/connectors/none/restart", None, 404),
    ("POST", "/connectors/none/tasks/0/restart", None, 404),
    ("GET", "/connectors/none/offsets", None, 404),
    ("POST", "/connectors", {"name": "n", "config": {}}, 400),
    ("POST", "/connectors", {"name": "", "config": {"connector.class": "FileStreamSource"}}, 400),
    ("POST", "/connectors", {"name": "n", "config": {"name": "m", "connector.class": "FileStreamSource"}}, 400),
    ("POST", "/connectors", {"name": "n", "config": {"connector.class": "FileStreamSource"}}, 400),
    ("POST", "/connectors", {"name": "n", "config": {"connector.class": "NoSuchThing"}}, 400),
    ("POST", "/connectors", ["n"], 400),
    ("PUT", "/connectors/n/config", {"connector.class": {"a": 1}}, 400),
    ("PATCH", "/connectors/n/config", {"name": "m"}, 400),
    ("PUT", "/admin/loggers/penstock", {"level": "loud"}, 404),
    ("PUT", "/admin/loggers/penstock", {}, 400),
    ("GET", "/admin/loggers/no.such.logger", None, 404),
    ("GET", "/connector-plugins/none/config", None, 404),
    ("GET", "/connector-plugins/FileStreamSource/config?version=(,0)", None, 404),
    ("GET", "/connector-plugins/FileStreamSource/config?version=[", None, 400),
    ("GET", "/nowhere", None, 404),
    ("DELETE", "/connectors", None, 405),
)


async def test_what_cannot_be(asking: Asking) -> None:
    for verb, path, body, status in REFUSED:
        answered, said = await asking.ask(verb, path, body)
        assert (answered, said.keys()) == (status, {"error_code", "message"}), (verb, path)
        assert said["error_code"] == status


async def test_plugins_and_what_is_wrong_with_a_configuration(asking: Asking, tmp_path: Path) -> None:
    (sources, _) = [
        [one["class"] for one in (await asking.ask("GET", f"/connector-plugins{query}"))[1]]
        for query in ("", "?connectorsOnly=false")
    ]
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in sources
    types = {one["type"] for one in (await asking.ask("GET", "/connector-plugins?connectorsOnly=false"))[1]}
    assert types == {"source", "sink", "transformation", "predicate", "converter", "header_converter"}
    keys = (await asking.ask("GET", "/connector-plugins/FileStreamSource/config"))[1]
    assert keys[0]["name"] == "file"
    assert keys[0].keys() == {
        "name", "type", "required", "default_value", "importance", "documentation", "group", "order", "width",
        "display_name", "dependents",
    }  # fmt: skip
    path = "/connector-plugins/FileStreamSource/config/validate"
    wrong = {"connector.class": "FileStreamSource", "name": "n", "topic": "t", "tasks.max": "many", "transforms": "x"}
    status, found = await asking.ask("PUT", path, wrong)
    assert (status, found["name"], found["error_count"]) == (200, "FileStreamSource", 3)
    errors = {row["value"]["name"]: row["value"]["errors"] for row in found["configs"] if row["value"]["errors"]}
    assert errors.keys() == {"file", "tasks.max", "transforms.x.type"}
    assert (await asking.ask("PUT", path, {"connector.class": "FileStreamSink"}))[0] == 400
    good = {"connector.class": "FileStreamSource", "name": "n", "topic": "t", "file": "f"}
    assert (await asking.ask("PUT", path, good))[1]["error_count"] == 0


async def test_log_levels_of_one_worker_and_of_all(asking: Asking) -> None:
    path = "/admin/loggers/penstock.test.connect"
    assert (await asking.ask("PUT", path, {"level": "debug"})) == (200, ["penstock.test.connect"])
    level = (await asking.ask("GET", path))[1]
    assert level["level"] == "DEBUG"
    assert isinstance(level["last_modified"], int)
    assert "root" in (await asking.ask("GET", "/admin/loggers"))[1]
    assert await asking.ask("PUT", f"{path}?scope=cluster", {"level": "WARN"}) == (204, None)
    await asking.until(path, "WARN", "level")


async def test_the_worker_says_who_it_is(asking: Asking) -> None:
    assert (await asking.ask("GET", "/"))[1].keys() == {"version", "commit", "kafka_cluster_id"}
    assert (await asking.ask("GET", "/health"))[1]["status"] == "healthy"


async def test_a_page_of_a_browser_and_a_form_are_refused(asking: Asking) -> None:
    evil = {"Origin": "http://evil.example"}
    assert (await asking.ask("PUT", "/connectors/x/pause", headers=evil))[0] == 403
    form = {"Content-Type": "text/plain"}
    assert (await asking.ask("POST", "/connectors", {"name": "n"}, headers=form))[0] == 415


async def test_a_page_that_is_named_may_ask(bootstrap: str, topic: str) -> None:
    page, ours = "http://page.example", "http://[::1]:9000"
    config = worker_config(bootstrap, topic) | {
        "listeners": "http://127.0.0.1:0",
        "access.control.allow.origin": "http://*.example, http://[::1]:9000",
        "access.control.allow.methods": "GET,PUT",
    }
    async with (
        RunningWorker(DistributedWorker, config) as running,
        aiohttp.ClientSession(running.server.urls[0]) as session,
    ):
        for origin, status, allowed in ((page, 200, page), (ours, 200, ours), ("http://evil.com", 403, None)):
            async with session.get("/", headers={"Origin": origin}) as answer:
                assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (status, allowed)
        asks = {"Origin": page, "Access-Control-Request-Method": "PUT"}
        async with session.options("/connectors/x/config", headers=asks) as answer:
            assert answer.status == 200
            assert answer.headers["Allow"] == "GET,PATCH,PUT,HEAD,OPTIONS"
            assert answer.headers["Access-Control-Allow-Methods"] == "GET,PUT"
            assert answer.headers["Access-Control-Allow-Origin"] == page
            assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]
        async with session.options("/connectors/x/config", headers=asks | {"Origin": "http://evil.com"}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers
        async with session.options("/nowhere") as answer:
            assert answer.status == 404
        async with session.head("/connectors") as answer:
            assert (answer.status, answer.content_type, await answer.read()) == (200, "application/json", b"")


async def test_a_connector_of_which_no_status_is_known_is_left_out_where_that_is_asked(asking: Asking) -> None:
    herder = asking.leader.server.served.herder  # type: ignore[union-attr]
    herder.worker.state.apply("connector-new", json.dumps({"properties": {"connector.class": "x"}}).encode())
    for query, names in (("expand=info", ["new"]), ("expand=status", []), ("expand=info&expand=status", [])):
        assert list((await asking.ask("GET", f"/connectors?{query}", leader=True))[1]) == names


async def test_a_request_does_not_go_in_a_circle(
    sharing: Asking, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REBALANCE_LIMIT_S", 0.1)
    config = source(tmp_path, topic)
    assert (await sharing.ask("PUT", "/connectors/lines/config?forward=false", config))[0] == 409
    assert (await sharing.ask("PUT", "/connectors/lines/config?forward=true", config))[0] == 201


async def test_a_client_of_others_drives_it(asking: Asking, topic: str, tmp_path: Path) -> None:
    """kafka-connect-py, as it is on PyPI, at the worker that does not lead."""
    config = source(tmp_path, topic)
    client = KafkaConnect(asking.other.server.urls[0])

    async def call(name: str, *arguments: object, **named: object) -> Any:
        return await asyncio.to_thread(getattr(client, name), *arguments, **named)

    assert "kafka_cluster_id" in await call("get_cluster_info")
    await call("create_connector", {"name": "lines", "config": config})
    await asking.until_running("lines")
    assert list(await call("list_connectors")) == ["lines"]
    assert (await call("get_connector_config", "lines"))["file"] == config["file"]
    await call("update_connector", "lines", config | {"batch.size": "5"})
    assert (await call("get_connector", "lines"))["config"]["batch.size"] == "5"
    await asking.until_running("lines")
    assert (await call("get_connector_task_status", "lines", 0))["id"] == 0
    assert len(await call("list_connector_tasks", "lines")) == 1
    await call("pause_connector", "lines")
    await asking.until("/connectors/lines/status", "PAUSED", "connector", "state")
    await call("resume_connector", "lines")
    await asking.until_running("lines")
    await call("restart_connector", "lines", include_tasks=True, only_failed=True)
    await call("restart_connector_task", "lines", 0)
    await call("list_connector_topics", "lines")
    await call("reset_connector_topics", "lines")
    assert any("FileStream" in one["class"] for one in await call("list_connector_plugins"))
    assert (
        await call(
            "validate_connector_config",
            "FileStreamSource",
            config | {"name": "lines", "connector.class": "FileStreamSource"},
        )
    )["error_count"] == 0
    await call("stop_connector", "lines")
    await asking.until("/connectors/lines/status", "STOPPED", "connector", "state")
    await call("delete_connector", "lines")
    assert list(await call("list_connectors")) == []


async def test_a_worker_that_does_not_answer_is_told_in_words(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_: object) -> None:
        raise ElsewhereError("http://127.0.0.1:1")

    monkeypatch.setattr(Herder, "_own", elsewhere)
    status, said = await asking.ask("GET", "/connectors/lines/tasks/0/report")
    assert status == 500
    assert said["message"].startswith("worker http://127.0.0.1:1 does not answer: ")
    assert "(ConnectionKey" not in said["message"]
