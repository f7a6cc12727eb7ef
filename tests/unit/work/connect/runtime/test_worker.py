"""A worker as far as it is the same for all: what its parts are made of, and what becomes of a deleted connector."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from penstock.work.connect.api import SinkConnector, SourceConnector, SourceContext
from penstock.work.connect.runtime import worker as worker_module
from penstock.work.connect.runtime.config_state import Deleted, RestartRequest
from penstock.work.connect.runtime.records import encode, properties
from penstock.work.connect.standalone.worker import StandaloneWorker

SECONDS = {
    "offset.flush.interval.ms": "70000",
    "offset.flush.timeout.ms": "3500",
    "task.shutdown.graceful.timeout.ms": "2500",
}


def worker(tmp_path: Path, **settings: str) -> StandaloneWorker:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }
    return StandaloneWorker(config | SECONDS | {key.replace("_", "."): value for key, value in settings.items()})


async def test_tasks_are_given_what_the_settings_say(tmp_path: Path) -> None:
    one = worker(tmp_path, topic_tracking_enable="false", listeners="https://a:1")
    given = one.tasks._environment
    assert (given.flush_interval_ms, given.flush_timeout_s, given.shutdown_timeout_s) == (70_000, 3.5, 2.5)
    assert (given.tracks_topics, given.makes_topics, given.generations) == (False, True, None)
    assert given.config == one.config == given.worker.config
    assert (given.clients, given.providers) == (one.clients, one.providers)
    assert given.offsets_topic_of({"offsets.storage.topic": "mine"}) == "mine"
    assert (one.url, one.url_of("b:2")) == ("https://127.0.0.1:8083/", "https://b:2/")
    other = worker(tmp_path, topic_creation_enable="false")
    assert (other.tasks._environment.tracks_topics, other.tasks._environment.makes_topics) == (True, False)
    assert other.url == "http://127.0.0.1:8083/"
    async with other.offset_stores.of({"offsets.storage.topic": "mine"}) as store:
        assert store is other.offsets


def looks(one: StandaloneWorker) -> list[str]:
    """What looks when the worker does."""
    taken: list[str] = []
    parts: dict[str, Any] = {
        name: SimpleNamespace(look=lambda name=name: taken.append(name)) for name in ("tasks", "leading", "_fencing")
    }
    for name, part in parts.items():
        setattr(one, name, part)
    one._share_out = lambda: taken.append("share out")  # type: ignore[method-assign]
    return taken


async def test_nothing_is_looked_at_before_it_has_started(tmp_path: Path) -> None:
    one = worker(tmp_path)
    taken = looks(one)
    one._look()
    assert taken == []
    one._is_started = True
    one._look()
    assert taken == ["share out", "tasks", "leading", "_fencing"]
    one._fencing = None
    one._look()
    assert taken[4:] == ["share out", "tasks", "leading"]


async def test_orders_are_for_those_that_are_there(tmp_path: Path) -> None:
    one = worker(tmp_path)
    heard: list[object] = []
    one._take = heard.append  # type: ignore[method-assign, assignment]
    order, key = encode({"include-tasks": True, "only-failed": False}), b"restart-connector-c"
    one._read_config(key, order, 0)
    assert heard == []
    one._is_started = True
    one._read_config(key, order, 1)
    one._read_config(b"connector-c", properties({"name": "c"}), 2)
    assert heard == [RestartRequest("c", True, False)]
    assert one.state.connectors["c"].config == {"name": "c"}
    one.state.connectors.clear()
    await one.request_restart(RestartRequest("d", False, True))
    assert heard[1:] == [RestartRequest("d", False, True)]


class Leaving(SourceConnector):
    """Notes what it is told when it was deleted."""

    seen: ClassVar[list[tuple[Mapping[str, str], SourceContext]]] = []
    fails: ClassVar[bool] = False

    def deleted(self, config: Mapping[str, str], context: SourceContext) -> None:
        self.seen.append((config, context))
        if self.fails:
            raise ValueError("not today")


class Silent(SourceConnector): ...


class Sink(SinkConnector): ...


@pytest.fixture
async def leading(tmp_path: Path) -> StandaloneWorker:
    Leaving.seen.clear()
    one = worker(tmp_path)
    await one.offsets.log.start()
    await one.offsets.write("c", [({"f": 1}, {"at": 7})])
    one._is_started = one.leading.leads = True
    return one


def gone(kind: type[Any]) -> Deleted:
    return Deleted("c", {"name": "c", "connector.class": f"{__name__}:{kind.__name__}"})


async def farewell(one: StandaloneWorker, news: Deleted) -> None:
    one._take(news)
    await asyncio.gather(*one._farewells)


async def test_a_deleted_connector_may_end_what_it_has_left(leading: StandaloneWorker) -> None:
    await farewell(leading, gone(Leaving))
    ((config, context),) = Leaving.seen
    assert config == gone(Leaving).config
    assert (context.offset({"f": 1}), context.offsets()) == ({"at": 7}, [({"f": 1}, {"at": 7})])
    await context.store([({"f": 1}, None)])
    assert leading.offsets.all_of("c") == []
    assert context.worker is leading.tasks._environment.worker


@pytest.mark.parametrize("kind", [Silent, Sink])
async def test_who_leaves_nothing_is_not_asked(leading: StandaloneWorker, kind: type[Any]) -> None:
    async def asked(connector: str) -> None:
        raise AssertionError(connector)

    leading.until_ended = asked  # type: ignore[method-assign]
    await farewell(leading, gone(kind))


async def test_only_who_leads_says_farewell(leading: StandaloneWorker) -> None:
    leading.leading.leads = False
    await farewell(leading, gone(Leaving))
    assert Leaving.seen == []


async def test_one_that_is_there_again_finds_what_is_left_itself(leading: StandaloneWorker) -> None:
    waits = asyncio.Event()
    leading.until_ended = lambda connector: waits.wait()  # type: ignore[method-assign, assignment, return-value]
    leading._take(gone(Leaving))
    await asyncio.sleep(0)
    leading.state.apply("connector-c", properties({"name": "c"}))
    waits.set()
    await asyncio.gather(*leading._farewells)
    assert Leaving.seen == []


async def test_a_class_that_hangs_has_one_thread_however_many_of_it_are_deleted(
    leading: StandaloneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate = list[str](), threading.Event()

    def found(config: Mapping[str, str]) -> type[Any]:
        asked.append(config["connector.class"])
        gate.wait(30)
        return Leaving

    monkeypatch.setattr(worker_module, "kind_of", found)
    for _ in range(3):
        leading._take(gone(Leaving))
        await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*leading._farewells)
    assert asked == [gone(Leaving).config["connector.class"]]
    assert len(Leaving.seen) == 3


async def test_what_it_fails_with_is_told(
    leading: StandaloneWorker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leaving, "fails", True)
    await farewell(leading, gone(Leaving))
    await farewell(leading, Deleted("c", {"name": "c", "connector.class": "no_such_module:Thing"}))
    words = "what connector c has left, which was deleted, may go on: "
    assert [record.getMessage()[: len(words)] for record in caplog.records] == [words] * 2
    assert caplog.records[0].getMessage() == f"{words}not today"
