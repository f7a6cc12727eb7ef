"""A worker that shares connectors with others, by Kafka's `connect-distributed.properties`.

What it knows is in three topics; the group says which worker runs a task, and which one leads.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed.claimed_log import ClaimedLog
from penstock.work.connect.distributed.key_rotation import KeyRotation
from penstock.work.connect.distributed.settings import DISABLED, parse_settings, planner_of, storage_of
from penstock.work.connect.distributed.topic_log import TopicLog
from penstock.work.connect.runtime.logs import OnRecord
from penstock.work.connect.runtime.needs import machines_memory_mb, megabytes, task_of
from penstock.work.connect.runtime.records import TaskId, is_of
from penstock.work.connect.runtime.settings import TRANSACTIONS, USERS
from penstock.work.connect.runtime.worker import ConnectWorker
from penstock.work.scope import Scope
from penstock.work.wire import Group
from penstock.work.worker import WorkerSettings

RETRY_S: Final = 1.0
logger = logging.getLogger(__name__)


class DistributedWorker(ConnectWorker):
    config_log: TopicLog
    has_own_offset_logs = True

    def __init__(self, config: Mapping[str, str], worker_id: str, clients: Clients | None = None) -> None:
        super().__init__(config, worker_id, clients)
        self._status_log = self._new_log("status", "statuses", self.statuses.read)
        self.group = self._new_group()
        self.group.on_generation = self._new_generation
        self._keys = KeyRotation(self.state, self.leading, self.settings, self.clients.now_ms)
        self._failed = asyncio.Event()
        self._next_generation = asyncio.Event()
        self._changing = asyncio.Lock()
        self._under_way = Scope()

    @staticmethod
    def parse(config: Mapping[str, str]) -> dict[str, Any]:
        return parse_settings(config)

    def _new_log(
        self, store: str, name: str, on_record: OnRecord, on_read: Callable[[], None] = lambda: None
    ) -> TopicLog:
        storage = storage_of(store, self.settings, self.config)
        return TopicLog(self.clients, storage, self._client_id(name), on_record, on_read)

    def _client_id(self, name: str) -> str:
        return f"{self.settings['group.id']}-{self.worker_id}-{name}"

    def _new_config_log(self) -> TopicLog:
        if self.settings[TRANSACTIONS] == DISABLED:
            return self._new_log("config", "configs", self._read_config, self._look)
        return ClaimedLog(
            self.clients,
            storage_of("config", self.settings, self.config),
            self._client_id("configs"),
            self._read_config,
            self._look,
            transactional_id=f"connect-cluster-{self.settings['group.id']}",
            on_loss=self._lost_claim,
        )

    def _new_offset_log(self, on_record: OnRecord) -> TopicLog:
        return self._new_log("offset", "offsets", on_record)

    def _new_own_offset_log(self, topic: str, on_record: OnRecord) -> TopicLog:
        """Made like the worker's, if it is missing."""
        storage = storage_of("offset", self.settings, self.config).replace(topic=topic, is_automatic=True)
        return TopicLog(self.clients, storage, self._client_id(f"offsets-{topic}"), on_record)

    def _new_group(self) -> Group:
        settings = self.settings
        worker = WorkerSettings(
            name=self.worker_id,
            url=self.url,
            planner=planner_of(settings["tasks.planner"]),
            cores=settings["worker.cores"] or os.cpu_count(),
            memory_mb=megabytes(memory) if (memory := settings["worker.memory"]) else machines_memory_mb(),
            session_timeout_ms=settings["session.timeout.ms"],
            heartbeat_interval_ms=settings["heartbeat.interval.ms"],
            rebalance_timeout_ms=settings["rebalance.timeout.ms"],
            scheduled_rebalance_max_delay_ms=settings["scheduled.rebalance.max.delay.ms"],
        )
        return Group(
            self.clients.bootstrap_servers,
            settings["group.id"],
            worker,
            self.tasks,
            self.clients.settings(self.worker_id),
        )

    async def start(self) -> None:
        """Read the three topics, then join; TopicError, ClientError, KafkaError."""
        await self._look_at_cluster()
        await asyncio.gather(self.config_log.start(), self._status_log.start(), self.offsets.log.start())
        self._share_out()
        await self.group.start(self.config_log.end)
        self._is_started = True

    async def stop(self) -> None:
        self._is_started = False
        await self._farewells.stop()
        await self.leading.retire()
        await self.group.stop()
        await self._under_way.stop()
        await self._keys.stop()
        if self._fencing is not None:
            await self._fencing.stop()
        logs = (self.config_log, self._status_log, self.offsets.log, self.offset_stores)
        await asyncio.gather(*(log.stop() for log in logs))

    async def ended(self) -> Exception:
        """Wait for what ends the membership for good, for instance that the group has another protocol."""
        await self._failed.wait()
        assert self.group.failure is not None
        return self.group.failure

    def task_ended(self, task: str) -> None:
        self.group.ended(task)

    def complain(self, reason: str) -> None:
        logger.warning("%s", reason)
        if self.group.failure is not None:
            self._failed.set()

    @property
    def is_ready(self) -> bool:
        return self._is_started and self.group.machine.assignment is not None

    def may_lead(self) -> bool:
        return self.group.machine.may_decide(round(asyncio.get_running_loop().time() * 1000))

    def owned_until_s(self) -> float:
        return self.group.owned_until_s()

    @property
    def leader_url(self) -> str | None:
        assignment = self.group.machine.assignment
        return assignment.leader_url if assignment is not None else None

    def owner_url(self, task: TaskId) -> str | None:
        assignment = self.group.machine.assignment
        for worker, names in assignment.step.plan.items() if assignment is not None else ():
            if f"task-{task}" in names:
                return self.url_of(worker)
        return None

    async def until_ended(self, connector: str) -> None:
        while self._may_run(connector):
            await self._next_generation.wait()

    def _may_run(self, connector: str) -> bool:
        in_hand = self.group.machine.in_hand
        return in_hand is None or any(is_of(connector, name) for name in in_hand)

    # Records

    def _post_status(self, key: bytes, value: bytes | None) -> None:
        self._status_log.post(key, value)

    def _read_config(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.group.machine.position = offset + 1
        super()._read_config(key, value, offset)

    def _share_out(self) -> None:
        self.group.set_tasks([task_of(name, self.state.task_config(name) or {}) for name in self.state.task_names()])

    # Generations

    def _new_generation(self) -> None:
        self.statuses.generation = self.group.machine.generation
        self._next_generation.set()
        self._next_generation = asyncio.Event()
        self._under_way.start(self._change_leader())

    def _lost_claim(self) -> None:
        self._under_way.start(self._change_leader(is_lost=True))

    async def _change_leader(self, *, is_lost: bool = False) -> None:
        """`is_lost`: the claim on the config topic is. If this worker leads still, it begins anew."""
        async with self._changing:
            if self.leading.leads and (is_lost or not self.group.machine.leads):
                await self.leading.retire()
            while self.group.machine.leads and not self.leading.leads:
                try:
                    await self.leading.lead()
                except Exception as error:  # whatever it is: nobody else leads meanwhile
                    logger.warning("%s cannot lead yet: %r", self.worker_id, error)
                    await asyncio.sleep(RETRY_S)
            if self._fencing is not None:
                self._fencing.look()
            if self.settings[USERS]:
                self._keys.look()
