"""Workers with users hear nobody else; what one hands on says whose it is. The command line can be one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
from click.testing import CliRunner
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.cli.main import main
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.basic import BASIC, CLASSES_KEY, FILE_KEY, HEADER, WRITERS_KEY, header_of
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.rest.signatures import ALGORITHM, SIGNATURE, USER

BOB = {HEADER: header_of("bob:looks")}


async def test_only_users_are_heard_and_of_them_writers_alone_change_something_by_any_worker(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Ada has another password at each worker: what goes from one to the other has none, and is signed."""
    client = tmp_path / "client.properties"
    common = worker_config(bootstrap, topic) | {
        "listeners": "http://127.0.0.1:0",
        CLASSES_KEY: BASIC,
        WRITERS_KEY: "ada",
        "inter.worker.key.ttl.ms": "1000",
    }

    def config(password: str) -> dict[str, str]:
        users = tmp_path / f"{password}.properties"
        users.write_text(f"ada={password}\nbob=looks\n")
        return common | {FILE_KEY: str(users)}

    async with (
        RunningWorker(DistributedWorker, config("sesame")) as one,
        RunningWorker(DistributedWorker, config("simsim")) as other,
        aiohttp.ClientSession() as session,
        asyncio.timeout(LIMIT_S),
    ):
        assert one.worker is not None
        assert other.worker is not None
        for number, (worker, password) in enumerate(((one, "sesame"), (other, "simsim"))):  # one hands it on
            url, ada = worker.server.urls[0], {HEADER: header_of(f"ada:{password}")}
            connector = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": topic}
            path = f"{url}/connectors/c%20%C3%A4{number}/config"
            refused = await session.put(path, json=connector)
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (
                401,
                'Basic realm="connect", charset="UTF-8"',
            )
            may_not = await session.put(path, json=connector, headers=BOB)
            assert (may_not.status, (await may_not.json())["message"]) == (
                403,
                f"bob may look and not change: {WRITERS_KEY} names who may",
            )
            while (await session.put(path, json=connector, headers=ada)).status not in (200, 201):
                await asyncio.sleep(0.02)  # they join, and the leader writes a key
            loads = await session.get(f"{url}/connector-plugins/antigravity:fly/config", headers=BOB)
            assert loads.status == 403
            forged = {SIGNATURE: "AAAA", ALGORITHM: "HmacSHA256", USER: "ada"}
            while (answer := await session.put(path, json=connector, headers=forged)).status != 403:
                assert answer.status == 503, "it has read no key yet"
                await asyncio.sleep(0.02)
        client.write_text("basic.auth.user.info=bob:looks\n")
        words = ["connect", "--worker", other.server.urls[0]]
        listed = await asyncio.to_thread(
            CliRunner().invoke, main, [*words, "--command-config", str(client), "list", "--json"]
        )
        assert [row["connector"] for row in json.loads(listed.output)] == ["c ä0", "c ä1"]
        refused_list = await asyncio.to_thread(CliRunner().invoke, main, [*words, "list"])
        assert refused_list.output == "Error: User cannot access the resource.\n"
        first = other.worker.state.session_keys
        while other.worker.state.session_keys == first:
            await asyncio.sleep(0.02)  # another key comes when this one is old
