"""What a connector that runs says of its tasks."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from penstock.work.connect.calls import Calls
from penstock.work.connect.runtime.connectors import RunningConnector, TaskConfigs
from penstock.work.connect.runtime.supervisor import Attempt


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
