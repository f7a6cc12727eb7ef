"""Workers with users hear nobody else; what one hands on has its user with it. The command line can be one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
from click.testing import CliRunner
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.cli.main import main
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.basic import BASIC, CLASSES_KEY, FILE_KEY, HEADER, header_of
from penstock.work.connect.rest.running import RunningWorker

ADA = {HEADER: header_of("ada:sesame")}


async def test_only_users_are_heard_by_any_worker(bootstrap: str, topic: str, tmp_path: Path) -> None:
    users, client = tmp_path / "users.properties", tmp_path / "client.properties"
    users.write_text("ada=sesame\n")
    config = worker_config(bootstrap, topic) | {
        "listeners": "http://127.0.0.1:0",
        CLASSES_KEY: BASIC,
        FILE_KEY: str(users),
    }
    async with (
        RunningWorker(DistributedWorker, config) as one,
        RunningWorker(DistributedWorker, config) as other,
        aiohttp.ClientSession() as session,
        asyncio.timeout(LIMIT_S),
    ):
        for number, worker in enumerate((one, other)):  # one of them hands it on
            url = worker.server.urls[0]
            connector = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": topic}
            path = f"{url}/connectors/c{number}/config"
            refused = await session.put(path, json=connector)
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (
                401,
                'Basic realm="connect", charset="UTF-8"',
            )
            while (await session.put(path, json=connector, headers=ADA)).status not in (200, 201):
                await asyncio.sleep(0.02)  # they join
        client.write_text("basic.auth.user.info=ada:sesame\n")
        words = ["connect", "--worker", other.server.urls[0]]
        listed = await asyncio.to_thread(
            CliRunner().invoke, main, [*words, "--command-config", str(client), "list", "--json"]
        )
        assert [row["connector"] for row in json.loads(listed.output)] == ["c0", "c1"]
        refused_list = await asyncio.to_thread(CliRunner().invoke, main, [*words, "list"])
        assert refused_list.output == "Error: User cannot access the resource.\n"
