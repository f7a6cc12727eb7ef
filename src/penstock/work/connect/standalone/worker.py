"""A worker that has its connectors for itself: they are in its memory, and how far sources were read is in a file."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.runtime import settings as of_all
from penstock.work.connect.runtime.kinds import checked
from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.records import Status, TaskId, decode, is_of, read_status
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.runtime.worker import ConnectWorker
from penstock.work.connect.standalone.alone import Alone
from penstock.work.connect.standalone.logs import FileLog, MemoryLog

KEYS: Final = (
    *of_all.KEYS,
    ConfigKey(
        "offset.storage.file.filename", required=True, documentation="the file that keeps how far sources were read"
    ),
)
DEFAULT_ID: Final = "127.0.0.1:8083"
STATUS: Final = "status-"
OnStatus = Callable[[str, Status], None]
"""Called with a connector or task, `task lines-0` for instance, and its state."""


class NotStartedError(Exception):
    pass


class StandaloneWorker(ConnectWorker):
    def __init__(self, config: Mapping[str, str], worker_id: str = DEFAULT_ID) -> None:
        super().__init__(config, worker_id)
        self._on_status: OnStatus = lambda *_: None
        self._has_begun = False
        self._alone = Alone(self.tasks)
        self._news = asyncio.Event()

    @staticmethod
    def parse(config: Mapping[str, str]) -> dict[str, Any]:
        return parse(KEYS, config)

    def _new_config_log(self) -> MemoryLog:
        return MemoryLog(self._read_config, self._look)

    def _new_offset_log(self, on_record: OnRecord) -> FileLog:
        return FileLog(Path(self.settings["offset.storage.file.filename"]), on_record)

    async def start(self) -> None:
        """FileLogError, ClientError, KafkaError."""
        await self._look_at_cluster()
        await self.offsets.log.start()
        self._is_started = True
        await self.leading.lead()

    async def stop(self) -> None:
        self._is_started = False
        await self._farewells.stop()
        await self.leading.retire()
        await self._alone.stop()

    async def begin(self, jobs: Sequence[Mapping[str, str]], on_status: OnStatus) -> None:
        """Create the first connectors; `on_status` gets all states from now on."""
        self._on_status = on_status
        for job in jobs:
            await self.create(job)
        self._has_begun = True

    async def create(self, config: Mapping[str, str]) -> None:
        """Returns when the connector has started; ConfigError, PluginError, NotStartedError."""
        if wrong := of_all.refused_overrides(config, self.settings) | of_all.refused_offsets(config, self.settings):
            raise ConfigError(wrong)
        await asyncio.to_thread(lambda: checked(self.providers.resolved(config)))
        name = config["name"]
        await self.leading.put_connector(name, config, None)
        while (status := self.statuses.connector(name)) is None or status.state == RunState.UNASSIGNED.value:
            self._news.clear()
            await self._news.wait()
        if status.state == RunState.FAILED.value:
            raise NotStartedError(f"connector {name} does not start: {status.trace}")

    @property
    def is_ready(self) -> bool:
        return self._is_started and self._has_begun

    def may_lead(self) -> bool:
        """There is no other worker."""
        return True

    @property
    def leader_url(self) -> str:
        return self.url

    def owner_url(self, task: TaskId) -> str:
        return self.url

    async def until_ended(self, connector: str) -> None:
        while any(is_of(connector, name) for name in self._alone.in_hand):
            await self._alone.next_end()

    def owned_until_s(self) -> float:
        return math.inf

    def task_ended(self, task: str) -> None:
        self._alone.ended(task)

    def complain(self, reason: str) -> None: ...

    def _share_out(self) -> None:
        self._alone.set_tasks(self.state.task_names())

    def _post_status(self, key: bytes, value: bytes | None) -> None:
        kind, _, name = key.decode().removeprefix(STATUS).partition("-")
        document = decode(value)
        status = read_status(document) if document is not None else None
        if status is not None:
            self._on_status(f"{kind} {name}", status)
        self._news.set()
