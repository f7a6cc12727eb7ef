"""A worker that shares connectors with others, by Kafka's `connect-distributed.properties`.

config topic ──▶ ConfigState ──▶ which tasks there are ──▶ Group: who runs which, who leads
                      │                                       │               │
                      └──────────── Tasks: what runs here ◀───┘               ▼
                      ▲                                            Leading: connectors, which
                      └──────────────── records ───────────────────────  want tasks
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.work.connect.distributed.config_state import ConfigState, LoggerLevel, News, RestartRequest
from penstock.work.connect.distributed.leading import Leading, NotLeadingError
from penstock.work.connect.distributed.offset_topic import OffsetTopic
from penstock.work.connect.distributed.records import RESTART, TASK, TaskId, encode, parse_task
from penstock.work.connect.distributed.settings import parse_settings, storage_of
from penstock.work.connect.distributed.statuses import Statuses
from penstock.work.connect.distributed.tasks import Tasks
from penstock.work.connect.distributed.topic_log import TopicLog
from penstock.work.connect.jobs import State
from penstock.work.connect.making import Around
from penstock.work.plan import Task
from penstock.work.wire import Group
from penstock.work.worker import WorkerSettings

RETRY_S: Final = 1.0
logger = logging.getLogger(__name__)


class DistributedWorker:
    """See the module. `worker_id` is the host and port at which others reach it. `start`, and `stop` at the end."""

    def __init__(
        self, config: Mapping[str, str], worker_id: str, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    ) -> None:
        self.config = dict(config)
        self.settings = parse_settings(config)
        self.worker_id = worker_id
        self.url = self._url_of(worker_id)
        self.cluster_id = ""
        self.state = ConfigState()
        self.on_logger_level: Callable[[LoggerLevel], None] = lambda _: None
        bootstrap = self.settings["bootstrap.servers"]
        storages = {store: storage_of(store, self.settings, config) for store in ("config", "offset", "status")}
        name = f"{self.settings['group.id']}-{worker_id}"
        self.offsets = OffsetTopic(bootstrap, storages["offset"], name)
        self.statuses = Statuses(worker_id, self._post_status)
        self._status_log = TopicLog(bootstrap, storages["status"], f"{name}-statuses", self._read_status)
        self.config_log = TopicLog(bootstrap, storages["config"], f"{name}-configs", self._read_config, self._look)
        patience_s = self.settings["task.shutdown.graceful.timeout.ms"] / 1000
        around = Around(
            bootstrap_servers=bootstrap,
            config=config,
            flush_interval_ms=self.settings["offset.flush.interval.ms"],
            shutdown_timeout_s=patience_s,
        )
        is_tracking = self.settings["topic.tracking.enable"]
        self.tasks = Tasks(
            self.state, self.statuses, self.offsets, around, now_ms, self._owned_until_s, is_tracking=is_tracking
        )
        self.leading = Leading(self.state, self.config_log, self.statuses, patience_s, self.may_lead)
        self.group = self._new_group(bootstrap)
        self.tasks.ended = self.group.ended
        self.group.on_generation = self._new_generation
        self._is_started = False
        self._failed = asyncio.Event()
        self._next_generation = asyncio.Event()
        self.tasks.on_complaint = self._complain
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    def _new_group(self, bootstrap: str) -> Group:
        settings = self.settings
        worker = WorkerSettings(
            name=self.worker_id,
            url=self.url,
            session_timeout_ms=settings["session.timeout.ms"],
            heartbeat_interval_ms=settings["heartbeat.interval.ms"],
            rebalance_timeout_ms=settings["rebalance.timeout.ms"],
            scheduled_rebalance_max_delay_ms=settings["scheduled.rebalance.max.delay.ms"],
        )
        return Group(bootstrap, settings["group.id"], worker, self.tasks, ClientSettings(client_id=self.worker_id))

    async def start(self) -> None:
        """Read the three topics, then join; TopicError, ClientError, KafkaError."""
        async with Admin(self.settings["bootstrap.servers"]) as admin:
            self.cluster_id = (await admin.describe_cluster()).cluster_id
        await asyncio.gather(self.config_log.start(), self._status_log.start(), self.offsets.log.start())
        self.group.set_tasks(self._group_tasks())
        await self.group.start(self.config_log.end)
        self._is_started = True

    async def stop(self) -> None:
        """End everything in good order, then leave."""
        self._is_started = False
        await self.leading.retire()
        await self.group.stop()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await asyncio.gather(self.config_log.stop(), self._status_log.stop(), self.offsets.log.stop())

    async def ended(self) -> Exception:
        """Wait for what ends the membership for good, a group of somebody else's for instance."""
        await self._failed.wait()
        assert self.group.failure is not None
        return self.group.failure

    def _complain(self, reason: str) -> None:
        logger.warning("%s", reason)
        if self.group.failure is not None:
            self._failed.set()

    @property
    def is_ready(self) -> bool:
        """Whether it has read what there is, and is a member."""
        return self._is_started and self.group.machine.assignment is not None

    def may_lead(self) -> bool:
        """Whether it leads at this moment, as far as it can know."""
        return self.group.machine.may_decide(round(asyncio.get_running_loop().time() * 1000))

    def _owned_until_s(self) -> float:
        return self.group.machine.owned_until_ms / 1000

    @property
    def leader_url(self) -> str | None:
        """Where the leader is reached; None if that is not known."""
        assignment = self.group.machine.assignment
        return assignment.leader_url if assignment is not None else None

    def owner_url(self, task: TaskId) -> str | None:
        """Where the worker is reached that has a task."""
        assignment = self.group.machine.assignment
        for worker, names in assignment.step.plan.items() if assignment is not None else ():
            if f"task-{task}" in names:
                return self._url_of(worker)
        return None

    def _url_of(self, worker: str) -> str:
        """All workers listen in the same way."""
        return f"{urlsplit(self.settings['listeners'][0]).scheme}://{worker}/"

    async def until_ended(self, connector: str) -> None:
        """As the leader: wait until no worker runs a task of this connector, which is to have none."""
        while self._may_run(connector):
            await self._next_generation.wait()

    def _may_run(self, connector: str) -> bool:
        in_hand = self.group.machine.in_hand
        tasks = (parse_task(name.removeprefix(TASK)) for name in in_hand or ())
        return in_hand is None or any(task is not None and task.connector == connector for task in tasks)

    async def request_restart(self, request: RestartRequest) -> None:
        """Let all workers start again what they have of a connector."""
        words = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
        await self.config_log.put(f"{RESTART}{request.connector}".encode(), encode(words))

    # Records

    def _post_status(self, key: bytes, value: bytes | None) -> None:
        self._status_log.post(key, value)

    def _read_status(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.statuses.read(key, value, offset)

    def _read_config(self, key: bytes, value: bytes | None, offset: int) -> None:
        news = self.state.apply(key.decode("utf-8", "replace"), value)
        self.group.machine.position = offset + 1
        if news is not None and self._is_started:
            self._obey(news)

    def _look(self) -> None:
        if self._is_started:
            self.group.set_tasks(self._group_tasks())
            self.tasks.look()
            self.leading.look()

    def _group_tasks(self) -> list[Task]:
        return [Task(name) for name in self.state.task_names()]

    def _obey(self, news: News) -> None:
        if isinstance(news, LoggerLevel):
            self.on_logger_level(news)
            return
        connector = self.statuses.connector(news.connector)
        if not news.only_failed or (connector is not None and connector.state == State.FAILED.value):
            self.leading.restart(news.connector)
        if news.include_tasks:
            statuses = self.statuses.tasks(news.connector)
            for task in self.state.task_ids(news.connector):
                status = statuses.get(task.number)
                if not news.only_failed or (status is not None and status.state == State.FAILED.value):
                    self.tasks.restart(task)

    # Generations

    def _new_generation(self) -> None:
        self.statuses.generation = self.group.machine.generation
        self._next_generation.set()
        self._next_generation = asyncio.Event()
        changing = asyncio.create_task(self._change_leader())
        self._under_way.add(changing)
        changing.add_done_callback(self._under_way.discard)

    async def _change_leader(self) -> None:
        async with self._changing:
            if self.leading.leads and not self.group.machine.leads:
                await self.leading.retire()
            while self.group.machine.leads and not self.leading.leads:
                try:
                    await self.leading.lead()
                except (TimeoutError, NotLeadingError) as error:
                    logger.warning("%s cannot lead yet: %r", self.worker_id, error)
                    await asyncio.sleep(RETRY_S)
