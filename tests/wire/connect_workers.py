"""Workers that share connectors, in this process, on the node of the wire tests."""

import asyncio
from collections.abc import Callable

from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.runtime.statuses import Statuses

LIMIT_S = 60


def worker_config(bootstrap: str, group: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-statuses",
        "offset.storage.partitions": "2",
        "status.storage.partitions": "2",
        **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.flush.interval.ms": "50",
        "task.shutdown.graceful.timeout.ms": "2000",
        "heartbeat.interval.ms": "100",
        "session.timeout.ms": "30000",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class Workers:
    """Some workers of one group; what they say in the status topic wakes who waits."""

    def __init__(self, bootstrap: str, group: str, **more: str) -> None:
        self.config = worker_config(bootstrap, group, **more)
        self.all: list[DistributedWorker] = []
        self.news = asyncio.Event()

    async def add(self, worker_id: str) -> DistributedWorker:
        worker = DistributedWorker(self.config, worker_id)
        read, generation = worker.statuses.read, worker.group.on_generation

        def reading(key: bytes, value: bytes | None, offset: int = 0) -> None:
            read(key, value, offset)
            self.news.set()

        def begins() -> None:
            generation()
            self.news.set()

        worker.statuses.read = reading  # type: ignore[method-assign,assignment]
        worker.group.on_generation = begins
        await worker.start()
        self.all.append(worker)
        await self.until(lambda: worker.is_ready)
        return worker

    async def leader(self) -> DistributedWorker:
        await self.until(lambda: any(worker.leading.leads for worker in self.all))
        return next(worker for worker in self.all if worker.leading.leads)

    @property
    def statuses(self) -> Statuses:
        return self.all[0].statuses

    async def until(self, condition: Callable[[], bool]) -> None:
        """Looked at after each status and generation, and now and then for what says nothing."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self.news.clear()
                try:
                    await asyncio.wait_for(self.news.wait(), 0.1)
                except TimeoutError:
                    pass

    async def create(self, config: dict[str, str]) -> None:
        await (await self.leader()).leading.put_connector(config["name"], config, None)

    async def until_running(self, name: str, count: int = 1) -> list[str]:
        """The workers that have its tasks, when all of them run."""
        await self.until(lambda: [one.state for one in self.statuses.tasks(name).values()] == ["RUNNING"] * count)
        return [one.worker_id for one in self.statuses.tasks(name).values()]

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.all))
