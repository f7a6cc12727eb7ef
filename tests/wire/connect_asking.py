"""Requests to Connect's REST interface of workers in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.standalone.worker import StandaloneWorker

Answer = tuple[int, Any]


class Asking:
    """Two workers, of which one does not lead; what is asked of it goes on to the other. Or one that is alone."""

    def __init__(self, workers: Sequence[RunningWorker[Any]], session: aiohttp.ClientSession) -> None:
        self.workers = workers
        self.session = session
        (self.leader,) = [worker for worker in workers if worker.worker is not None and worker.worker.leading.leads]
        self.other = next((worker for worker in workers if worker is not self.leader), self.leader)

    async def ask(
        self,
        verb: str,
        path: str,
        body: object = None,
        *,
        leader: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        url = (self.leader if leader else self.other).server.urls[0]
        data = None if body is None else json.dumps(body)
        kind = {"Content-Type": "application/json"} if body is not None else {}
        async with self.session.request(verb, f"{url}{path}", data=data, headers={**kind, **(headers or {})}) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def settled(self, verb: str, path: str) -> Answer:
        """Ask until no rebalance is in the way, which Connect answers with 409."""
        async with asyncio.timeout(LIMIT_S):
            while (answer := await self.ask(verb, path))[0] == 409:
                await asyncio.sleep(0.02)
            return answer

    async def until(self, path: str, wanted: object, *keys: str | int) -> Any:
        """Ask until what lies behind these keys is that."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                status, answer = await self.ask("GET", path)
                found = answer
                if status == 200:
                    try:
                        for key in keys:
                            found = found[key]
                    except (LookupError, TypeError):
                        found = None
                    if found == wanted:
                        return answer
                await asyncio.sleep(0.02)

    async def until_running(self, name: str, tasks: int = 1) -> Any:
        await self.until(f"/connectors/{name}/status", "RUNNING", "connector", "state")
        for number in range(tasks):
            await self.until(f"/connectors/{name}/tasks/{number}/status", "RUNNING", "state")
        return (await self.ask("GET", f"/connectors/{name}/status"))[1]


def agree(*both: RunningWorker[DistributedWorker]) -> bool:
    """Whether one of them leads and all know that, each in the same generation."""
    workers = [each.worker for each in both if each.worker is not None]
    leaders = [worker for worker in workers if worker.leading.leads]
    if len(workers) < len(both) or len(leaders) != 1:
        return False
    generations = {worker.group.machine.generation for worker in workers}
    return len(generations) == 1 and {worker.leader_url for worker in workers} == {leaders[0].url}


@asynccontextmanager
async def two_that_share(bootstrap: str, group: str) -> AsyncIterator[Asking]:
    config = worker_config(bootstrap, group) | {"listeners": "http://127.0.0.1:0"}
    async with (
        RunningWorker(DistributedWorker, config) as one,
        RunningWorker(DistributedWorker, config) as two,
        aiohttp.ClientSession() as session,
    ):
        async with asyncio.timeout(LIMIT_S):
            while not agree(one, two):
                await asyncio.sleep(0.02)
        yield Asking([one, two], session)


@asynccontextmanager
async def one_alone(bootstrap: str, folder: Path) -> AsyncIterator[Asking]:
    config = worker_config(bootstrap, "none") | {"listeners": "http://127.0.0.1:0"}
    config["offset.storage.file.filename"] = str(folder / "offsets")
    async with RunningWorker(StandaloneWorker, config) as one, aiohttp.ClientSession() as session:
        assert one.worker is not None
        await one.worker.begin([], lambda *_: None)
        yield Asking([one], session)
