"""A worker, as far as it is the same whether workers share connectors or one has them all.

config log ──▶ ConfigState ──▶ which tasks there are ──▶ who runs which, who leads
                    │                                       │               │
                    └──────────── Tasks: what runs here ◀───┘               ▼
                    ▲                                            Leading: connectors, which
                    └──────────────── records ───────────────────────  want tasks
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from penstock.client.admin import Admin
from penstock.work.connect.api import SourceConnector, SourceContext, WorkerContext
from penstock.work.connect.calls import Calls, SharedCalls, called_apart
from penstock.work.connect.clients import Clients
from penstock.work.connect.config import with_prefix
from penstock.work.connect.providers import Providers
from penstock.work.connect.runtime.config_state import ConfigState, Deleted, LoggerLevel, News, RestartRequest
from penstock.work.connect.runtime.fencing import Fencing
from penstock.work.connect.runtime.generations import Generations
from penstock.work.connect.runtime.kinds import kind_of
from penstock.work.connect.runtime.leading import Leading
from penstock.work.connect.runtime.loggers import LoggerError, Loggers
from penstock.work.connect.runtime.logs import ConfigLog, OnRecord, WorkerLog
from penstock.work.connect.runtime.records import RESTART, TaskId, encode
from penstock.work.connect.runtime.running_tasks import Environment
from penstock.work.connect.runtime.secret_values import Words, discretion
from penstock.work.connect.runtime.settings import has_transactions
from penstock.work.connect.runtime.source_offsets import OffsetStores, SourceOffsets
from penstock.work.connect.runtime.statuses import Statuses
from penstock.work.connect.runtime.supervisor import RunState
from penstock.work.connect.runtime.tasks import GroupMembership, Tasks
from penstock.work.scope import Scope

logger = logging.getLogger(__name__)


class ConnectWorker(GroupMembership, ABC):
    """`worker_id` is the host and port for other workers."""

    def __init__(self, config: Mapping[str, str], worker_id: str, clients: Clients | None = None) -> None:
        self.providers = Providers(config)
        self.config = config = self.providers.resolved(config)
        self.settings = settings = self.parse(config)
        self.worker_id = worker_id
        self.url = self.url_of(worker_id)
        self.cluster_id = ""
        self.state = ConfigState()
        self.clients = clients or Clients.of_worker(config, settings["bootstrap.servers"])
        self.loggers = Loggers(self.clients.now_ms)
        self.config_log = self._new_config_log()
        self.offsets = SourceOffsets(self._new_offset_log)
        self.statuses = Statuses(worker_id, self._post_status)
        own = self._new_own_offset_log if self.has_own_offset_logs else None
        self.offset_stores = OffsetStores(self.offsets, settings.get("offset.storage.topic", ""), own)
        is_exact = has_transactions(settings)
        generations = Generations(settings["group.id"], self.state, self.config_log) if is_exact else None
        patience_s = settings["task.shutdown.graceful.timeout.ms"] / 1000
        environment = Environment(
            clients=self.clients,
            config=config,
            providers=self.providers,
            flush_interval_ms=settings["offset.flush.interval.ms"],
            flush_timeout_s=settings["offset.flush.timeout.ms"] / 1000,
            shutdown_timeout_s=patience_s,
            tracks_topics=settings["topic.tracking.enable"],
            makes_topics=settings["topic.creation.enable"],
            generations=generations,
            offsets_topic_of=self.offset_stores.topic_of,
            worker=WorkerContext(config),
        )
        self.tasks = Tasks(self.state, self.statuses, self.offset_stores, environment, self)
        self.leading = Leading(
            self.state, self.config_log, self.statuses, patience_s, self.may_lead, self.providers.look_up, is_exact
        )
        self._fencing = (
            None if generations is None else Fencing(generations, self.state, self.leading, self._fencing_admin)
        )
        self._worker_context = environment.worker
        self._farewells = Scope()
        self._loading = SharedCalls()
        self._is_started = False

    @staticmethod
    @abstractmethod
    def parse(config: Mapping[str, str]) -> dict[str, Any]:
        """ConfigError."""

    # What depends on how connectors are shared

    @abstractmethod
    async def start(self) -> None:
        """Raises errors of files, topics and the cluster."""

    @abstractmethod
    async def stop(self) -> None: ...

    @property
    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    def may_lead(self) -> bool:
        """At this moment, as far as the worker can know."""

    @property
    @abstractmethod
    def leader_url(self) -> str | None:
        """None if the leader is not known."""

    @abstractmethod
    def owner_url(self, task: TaskId) -> str | None: ...

    @abstractmethod
    async def until_ended(self, connector: str) -> None:
        """As the leader: wait until no worker runs a task of this connector, which is to have none."""

    @abstractmethod
    def _new_config_log(self) -> ConfigLog: ...

    @abstractmethod
    def _new_offset_log(self, on_record: OnRecord) -> WorkerLog: ...

    has_own_offset_logs: ClassVar[bool] = False
    """Whether connectors may have topics of their own for how far they are."""

    def _new_own_offset_log(self, topic: str, on_record: OnRecord) -> WorkerLog:
        raise NotImplementedError

    @abstractmethod
    def _post_status(self, key: bytes, value: bytes | None) -> None: ...

    @abstractmethod
    def _share_out(self) -> None: ...

    # What does not

    async def until_settled(self, connector: str) -> None:
        """As the leader: until nothing more is stored by tasks of this connector, which is to have none."""
        await self.until_ended(connector)
        if self._fencing is not None:
            await self._fencing.until_fenced(connector)

    def url_of(self, worker: str) -> str:
        """All workers use the same scheme."""
        return f"{urlsplit(self.settings['listeners'][0]).scheme}://{worker}/"

    async def request_restart(self, request: RestartRequest) -> None:
        words = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
        await self.config_log.put(f"{RESTART}{request.connector}".encode(), encode(words))

    async def _look_at_cluster(self) -> None:
        async with self.clients.admin(self.worker_id) as admin:
            self.cluster_id = (await admin.describe_cluster()).cluster_id

    def _read_config(self, key: bytes, value: bytes | None, offset: int) -> None:
        news = self.state.apply(key.decode("utf-8", "replace"), value)
        if news is not None and self._is_started:
            self._take(news)

    def _look(self) -> None:
        if self._is_started:
            self._share_out()
            self.tasks.look()
            self.leading.look()
            if self._fencing is not None:
                self._fencing.look()

    async def _fencing_admin(self, connector: str) -> Admin:
        """It comes to the cluster as the connector's tasks do; ConfigError."""
        config = await called_apart("providers", self.providers.resolved, self.state.connectors[connector].config)
        properties = {**with_prefix(self.config, "admin."), **with_prefix(config, "admin.override.")}
        return self.clients.admin(f"connector-worker-adminclient-{connector}", properties)

    async def _say_farewell(self, gone: Deleted) -> None:
        """As the leader: what a deleted connector has left elsewhere ends when none of its tasks runs."""
        name, calls = gone.connector, Calls(f"end of {gone.connector}")
        discreet: Words = str
        try:
            wanted = gone.config.get("connector.class", "")
            kind = await self._loading.call(wanted, kind_of, {"name": name, "connector.class": wanted})
            if not issubclass(kind, SourceConnector) or kind.deleted is SourceConnector.deleted:
                return
            await self.until_ended(name)
            found = await calls.call(self.providers.look_up, gone.config)
            discreet = await calls.call(discretion, found)
            async with self.offset_stores.of(found.config) as store:
                await store.read_to_end()
                if name in self.state.connectors:
                    return  # there is one of that name again, and its tasks find what is left
                context = SourceContext(
                    partial(store.get, name),
                    worker=self._worker_context,
                    all_stored=partial(store.all_of, name),
                    store=partial(store.write, name),
                )
                await calls.call((await calls.call(kind)).deleted, found.config, context)
        except Exception as error:
            logger.warning("what connector %s has left, which was deleted, may go on: %s", name, discreet(str(error)))
        finally:
            calls.close()

    def _take(self, news: News) -> None:
        if isinstance(news, Deleted):
            if self.leading.leads:
                self._farewells.start(self._say_farewell(news), f"end of {news.connector}")
            return
        if isinstance(news, LoggerLevel):
            with suppress(KeyError, LoggerError):  # a level that only other workers know, or one name more
                self.loggers.set(news.logger, news.level)
            return
        connector = self.statuses.connector(news.connector)
        if not news.only_failed or (connector is not None and connector.state == RunState.FAILED.value):
            self.leading.restart(news.connector)
        if news.include_tasks:
            statuses = self.statuses.tasks(news.connector)
            for task in self.state.task_ids(news.connector):
                status = statuses.get(task.number)
                if not news.only_failed or (status is not None and status.state == RunState.FAILED.value):
                    self.tasks.restart(task)
