"""What a connector that runs says of its tasks."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from penstock import __version__
from penstock.client.providers import Resolved
from penstock.work.connect.api import SourceConnector
from penstock.work.connect.calls import Calls
from penstock.work.connect.runtime.connectors import ConnectorSupervisor, RunningConnector, TaskConfigs
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.supervisor import Attempt, RunState


async def tasks_of(config: Mapping[str, str], written: Mapping[str, str]) -> TaskConfigs:
    told: TaskConfigs = []

    async def publish(configs: TaskConfigs) -> None:
        told.extend(configs)
        attempt.stopping.set()

    attempt = Attempt(Calls("connector"), asyncio.Event(), lambda: None, written)
    await RunningConnector(config, attempt, publish, has_transactions=False).run()
    attempt.calls.close()
    return told


async def test_each_task_has_its_share_of_what_a_reference_stands_for_and_no_secret(tmp_path: Path) -> None:
    written = {
        "name": "c",
        "connector.class": "penstock.SqlSource",
        "connection.url": "${env:URL}",
        "mode": "${env:MODE}",
        "table.whitelist": "${env:TABLES}",
        "tasks.max": "2",
    }
    found = {"connection.url": f"sqlite:///{tmp_path / 'db'}", "mode": "bulk", "table.whitelist": "a,b,c"}
    tasks = await tasks_of({**written, **found}, written)
    assert tasks == [{**written, "table.whitelist": share} for share in ("a,c", "b")]


Told = tuple[str, RunState, str, str | None]


class Host:
    """What a connector tells and publishes."""

    def __init__(self, *, has_transactions: bool = False) -> None:
        self.has_transactions = has_transactions
        self.looked_up: list[Mapping[str, str]] = []
        self.told: list[Told] = []
        self.published: list[tuple[str, Mapping[str, str], TaskConfigs]] = []
        self._news = asyncio.Event()

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        self.looked_up.append(config)
        return Resolved({key: value.replace("${env:WHERE}", "f") for key, value in config.items()})

    def tell(self, connector: str, state: RunState, trace: str, version: str | None) -> None:
        self.told.append((connector, state, trace.partition("\n")[0], version))
        self._news.set()

    async def publish(self, connector: str, config: Mapping[str, str], configs: TaskConfigs) -> None:
        self.published.append((connector, config, configs))

    async def until(self, state: RunState) -> None:
        while not self.told or self.told[-1][1] is not state:
            self._news.clear()
            await self._news.wait()


CONFIG = {"name": "c", "connector.class": "FileStreamSource", "file": "${env:WHERE}", "topic": "t"}


async def test_a_connector_is_told_of_from_its_start_to_its_end() -> None:
    host = Host()
    supervisor = ConnectorSupervisor("c", 60.0, host)
    supervisor.want(CONFIG)
    await host.until(RunState.RUNNING)
    assert host.looked_up == [CONFIG]
    assert host.published == [("c", CONFIG, [CONFIG])]
    supervisor.want(CONFIG, Target.PAUSED)
    await host.until(RunState.PAUSED)
    await supervisor.give_up(RunState.STOPPED)
    states = (RunState.UNASSIGNED, RunState.RUNNING, RunState.PAUSED, RunState.STOPPED)
    assert [state for _, state, _, _ in host.told] == list(states)
    assert {(name, trace) for name, _, trace, _ in host.told} == {("c", "")}
    assert [version for *_, version in host.told] == [None, *[__version__] * 3], "its class is loaded as it starts"


@pytest.mark.parametrize("has", [True, False])
async def test_a_promise_of_transactions_is_looked_at_as_it_starts(has: bool) -> None:
    host = Host(has_transactions=has)
    supervisor = ConnectorSupervisor("c", 60.0, host)
    supervisor.want(CONFIG | {"exactly.once.support": "required", "task.restarts.max": "0"})
    await host.until(RunState.RUNNING if has else RunState.FAILED)
    assert ("writes no transactions" in host.told[-1][2]) is not has
    await supervisor.give_up()


class Stopping(SourceConnector):
    """Notes its end, and fails as it starts if it is to."""

    stopped: ClassVar[list[str]] = []

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        if config.get("fails"):
            raise ValueError("not today")

    def stop(self) -> None:
        self.stopped.append(self.config["name"])


@pytest.mark.parametrize("fails", ["", "yes"])
async def test_a_connector_is_stopped_however_it_ends(fails: str) -> None:
    Stopping.stopped.clear()
    host = Host()
    supervisor = ConnectorSupervisor("c", 60.0, host)
    config = {"name": "c", "connector.class": f"{__name__}:Stopping", "fails": fails, "task.restarts.max": "0"}
    supervisor.want(config)
    await host.until(RunState.FAILED if fails else RunState.RUNNING)
    await supervisor.give_up()
    assert Stopping.stopped == ["c"]
    assert host.published == ([] if fails else [("c", config, [config])])
