"""Start one node, and stop it: take the directories, take part in the quorum, join as a broker, listen.

| step                                           | what can go wrong: `StartError`, one line                |
| ---------------------------------------------- | -------------------------------------------------------- |
| look at what keys ask for (`protection`)       | protection that is not there yet                         |
| bind the listeners (port 0 gets a real one)    | the address is taken or is not ours                      |
| lock the log directories that are there        | in use, not writable, of another node or cluster         |
| find the logs, look at the metadata            | they are damaged, of a newer release, or ask for more    |
| load the policies of a controller              | there is no such class or file, or a rule is not one     |
| make and format new log directories            | the disk fails                                           |
| take part in the quorum (`quorum_start`)       | the disk fails                                           |
| as a broker: join and serve (`broker_start`)   | no controller is found or it refuses; damaged logs       |

Nothing on the disk is touched before all has been looked at, but where a crash is made up for, and but for the file
`.lock` in a log directory that is there. What only others can refuse comes too late for that: a controller that does
not take the broker's registration (its `node.id` or one of its directories is another's), or none that is found in
time. A member of the quorum has voted by then, and must not forget it: `quorum-state` keeps the epoch.

A clean stop goes the other way, and leaves the directories marked as clean. A node that can take part no longer,
because its disk failed or another process took its id, says so in `RunningNode.failed`; its owner then stops it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.formatting import any_formatted
from penstock.log.names import partition_directory
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.listeners import METRICS_KEY, METRICS_LISTENER, Listener
from penstock.node.assembly.broker_start import BrokerParts
from penstock.node.assembly.protection import UnprotectedError, check_keys, check_metadata
from penstock.node.assembly.quorum_start import QuorumParts, bind_listener, judges_of, metadata_log_config
from penstock.node.environment.environment import Environment
from penstock.node.environment.remover import Remover
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.quorum.looking import look
from penstock.node.quorum.state_file import QuorumStateError
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.server import BoundListener, Endpoint
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.raft.replica import InconsistentLogError

if TYPE_CHECKING:
    from penstock.node.assembly.monitoring import Monitoring
    from penstock.node.partitions.hand_over import PartitionHandOver

logger = logging.getLogger(__name__)

STOPPED = (Exception, asyncio.CancelledError)
"""What ends a start so that it can be cleaned up after. A coroutine that is merely dropped can do nothing more."""

OnParts = Callable[[QuorumParts], None]
"""Called with the node's part in the quorum before that does anything."""


class StartError(Exception):
    """Why a node cannot start: one line that names the cause and what to do about it."""


class RunningNode:
    """A node that runs. `endpoints` are where it listens, with real ports, for clients first.

    `broker` and `controller_node` are what handlers see of it; a node that has only one of the roles lacks the other.
    `failed` is done when the node cannot go on: its result says why, and it is to be stopped.
    """

    def __init__(
        self,
        parts: QuorumParts,
        serving: BrokerParts | None,
        listeners: Sequence[BoundListener],
        directories: LogDirectories,
        remover: Remover,
        monitoring: Monitoring | NoMonitoring,
    ) -> None:
        self.parts = parts
        self.monitoring = monitoring
        self.endpoints: tuple[Endpoint, ...] = tuple(listener.endpoint for listener in listeners)
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._serving = serving
        self._directories = directories
        self._remover = remover
        for end in (parts.failed, *(() if serving is None else (serving.ended,))):
            end.add_done_callback(self._on_end)

    @property
    def broker(self) -> Broker:
        """Only where the node is one."""
        assert self._serving is not None, "this node is a controller only"
        return self._serving.broker

    @property
    def hand_overs(self) -> Sequence[PartitionHandOver]:
        """Those under way and those that ended lately."""
        return () if self._serving is None else self._serving.hand_overs.open

    @property
    def is_broker(self) -> bool:
        return self._serving is not None

    @property
    def controller_node(self) -> ControllerNode | None:
        return self.parts.controller_node

    @property
    def node_id(self) -> int:
        return self.parts.context.config.node_id

    @property
    def cluster_id(self) -> str:
        return self.parts.context.image.cluster_id

    @property
    def log_dirs(self) -> list[str]:
        return self._directories.roots.paths

    def _on_end(self, ended: asyncio.Future[Exception]) -> None:
        if not self.failed.done():
            self.failed.set_result(ended.result())

    async def stop(self) -> None:
        """Answer what is being asked, write everything down, and leave the directories marked as clean."""
        try:
            async with AsyncExitStack() as parts:  # Each is stopped, the last one first, even if another cannot be.
                parts.push_async_callback(self._remover.stop)
                parts.push_async_callback(self.parts.stop)
                parts.push_async_callback(self.monitoring.stop)
                if self._serving is not None:
                    await self._serving.stop()
            if self.parts.quorum.failure is None:
                epoch = -1 if self._serving is None else self._serving.broker.broker_epoch
                self._directories.close(broker_epoch=epoch)
        except KafkaError as error:
            logger.error("not everything could be written down, the next start recovers it: %s", error.message)
        finally:
            self._directories.abandon()  # Without effect on directories that were closed.
        logger.info("node %s stopped", self.node_id)


async def start_node(
    config: BrokerConfig, environment: Environment | None = None, *, on_parts: OnParts | None = None
) -> RunningNode:
    """Start a node on the running event loop; it serves when this returns. Raises StartError."""
    environment = environment or Environment()
    listeners: list[BoundListener] = []
    directories: LogDirectories | None = None
    try:
        check_keys(config)
        _bind(config, environment, listeners)
        _check_identity(config, environment)
        directories = LogDirectories(
            config.log_dirs,
            metadata_path=config.metadata_dir,
            node_id=config.node_id,
            random=environment.random,
            disk=environment.disk,
            max_open_segments=environment.max_open_segments,
            recovery_threads=config.num_recovery_threads_per_data_dir,
        )
        metrics = listeners[-1] if config.metrics_address is not None else None
        for_nodes = [listener for listener in listeners if listener is not metrics]
        return await _start(config, environment, for_nodes, directories, on_parts, metrics)
    except BaseException as error:
        for listener in listeners:
            listener.close()
        if directories is not None:
            directories.give_back()
        reason = _reason(error)
        if reason is None:
            raise
        raise StartError(reason) from error


def _reason(error: BaseException) -> str | None:
    """One line for what a user can mend; None for a defect."""
    if isinstance(error, LogDirectoryError | QuorumStateError | UnprotectedError):
        return str(error)
    if isinstance(error, DecodeError | InconsistentLogError):
        return f"the metadata log cannot be read: {error}"
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    if isinstance(error, OSError):
        return f"the operating system refuses what the node needs: {error}"
    return None


def _bind(config: BrokerConfig, environment: Environment, bound: list[BoundListener]) -> None:
    """Bind each listener and enter it in `bound`, those for clients first, and last the one for metrics."""
    metrics = config.metrics_address
    last = () if metrics is None else (Listener(METRICS_LISTENER, *metrics),)
    for wanted in (*config.broker_listeners, *config.controller_listeners, *last):
        try:
            bound.append(bind_listener(config, environment, wanted))
        except OSError as error:
            raise StartError(
                f"cannot listen on {wanted} ({error.strerror or error}): stop what uses the address, or set"
                f" {METRICS_KEY if wanted in last else 'listeners'}"
            ) from error


def _check_identity(config: BrokerConfig, environment: Environment) -> None:
    """A single node may draw the id of its cluster; the nodes of a larger one must be given the same id first."""
    is_alone = config.is_broker and config.is_controller and not config.bootstrap_servers and len(config.voters) < 2
    if is_alone or any_formatted(environment.disk, config.all_dirs):
        return
    raise StartError(
        f"{config.metadata_dir} is not formatted, and this node is one of several: run `penstock storage format` with"
        " the same cluster id on all of them"
    )


async def _start(
    config: BrokerConfig,
    environment: Environment,
    listeners: Sequence[BoundListener],
    directories: LogDirectories,
    on_parts: OnParts | None,
    metrics: BoundListener | None,
) -> RunningNode:
    settings = TopicSettingsTable(config)
    was_clean = directories.roots.was_clean
    directories.open_all(
        lambda topic: metadata_log_config(config) if topic == CLUSTER_METADATA else settings.settings({}).log
    )
    metadata_path = f"{directories.roots.metadata_path}/{partition_directory(CLUSTER_METADATA, 0)}"
    seen = await look(directories.open_files.disk, metadata_path, directories.logs.get((CLUSTER_METADATA, 0)))
    check_metadata(seen.image, config)
    judges = judges_of(config)
    directories.begin()
    ours = {listener.name for listener in config.controller_listeners}
    parts = QuorumParts(
        config,
        environment,
        directories,
        [listener for listener in listeners if listener.endpoint.listener in ours],
        judges,
        seen,
    )
    if on_parts is not None:
        on_parts(parts)
    remover = Remover(directories, environment.now_ms)
    monitoring = _monitoring(parts, metrics)
    serving: BrokerParts | None = None

    def on_failure(path: str) -> None:
        problem = directories.roots.why_unusable()
        if problem is not None:
            parts.fail(problem)
        elif serving is not None:
            serving.on_directory_failed(path)

    loop = asyncio.get_running_loop()
    directories.roots.on_failure(lambda path: loop.call_soon_threadsafe(on_failure, path))
    try:
        remover.start()
        await monitoring.start()
        await parts.start()
        if config.is_broker:
            for_clients = [listener for listener in listeners if listener.endpoint.listener not in ours]
            serving = BrokerParts(parts, settings, for_clients, was_clean=was_clean)
            monitoring.serves(serving)
            await _unless_it_fails(serving.start(), parts)
    except STOPPED:
        async with AsyncExitStack() as stopped:
            for part in (remover, parts, monitoring):
                stopped.push_async_callback(part.stop)
        raise
    return RunningNode(parts, serving, listeners, directories, remover, monitoring)


class NoMonitoring:
    """Nobody looks at this node over HTTP."""

    port = -1

    async def start(self) -> None: ...

    def serves(self, serving: BrokerParts) -> None: ...

    async def stop(self) -> None: ...


def _monitoring(parts: QuorumParts, listener: BoundListener | None) -> Monitoring | NoMonitoring:
    if listener is None and parts.context.config.otlp_endpoint is None:
        return NoMonitoring()
    from penstock.node.assembly.monitoring import Monitoring

    return Monitoring(parts, listener)


async def _unless_it_fails(starting: Coroutine[Any, Any, None], parts: QuorumParts) -> None:
    """Wait for the broker, but not for one whose quorum driver has failed: it would wait in vain."""
    task = asyncio.create_task(starting)
    waiting: list[asyncio.Future[Any]] = [task, parts.failed]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise parts.failed.result()
        task.result()
    except STOPPED:
        task.cancel()
        await asyncio.wait([task])
        raise
