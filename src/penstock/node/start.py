"""Start one node, and stop it: take the directories, read the metadata, join, open the logs, listen.

| step                                        | what can go wrong: `StartError`, one line            |
| ------------------------------------------- | ---------------------------------------------------- |
| bind the listeners (port 0 gets a real one) | the address is taken or is not ours                  |
| lock the log directories, format new ones   | in use, not writable, of another node or cluster     |
| replay the metadata log, take its lead      | damaged                                              |
| register this broker with its real ports    | the controller refuses it                            |
| open the logs that the metadata says        | damaged                                              |
| start groups and upkeep, then listen        |                                                      |

A clean stop goes the other way, and leaves the directories marked as clean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from uuid import UUID

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.log.config import LogConfig
from penstock.log.directory import LogDirectories
from penstock.log.directory_errors import LogDirectoryError
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.advertise import advertised_endpoints
from penstock.node.broker import Broker
from penstock.node.connections import ConnectionLimits, Connections
from penstock.node.controller_driver import ControllerDriver
from penstock.node.dispatch import Dispatcher
from penstock.node.dynamic_configs import DynamicConfigs
from penstock.node.fetch_sessions import FetchSessions
from penstock.node.group_driver import GroupDriver
from penstock.node.handler import load_handlers
from penstock.node.log_configs import TopicSettingsTable
from penstock.node.metadata_log import TOPIC, MetadataLog
from penstock.node.metadata_snapshots import SnapshotLimits
from penstock.node.partitions import PartitionTable
from penstock.node.registration import UNKNOWN_EPOCH, BrokerIdentity, join
from penstock.node.replicas import LocalReplicas
from penstock.node.server import BACKLOG, BoundListener, Endpoint, Server
from penstock.node.surroundings import Surroundings
from penstock.node.upkeep import Upkeep, UpkeepIntervals
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.uuids import random_uuid

logger = logging.getLogger(__name__)

METADATA_TOPIC_ID = UUID(int=1)
"""The id that the metadata log has in every cluster."""


class StartError(Exception):
    """Why a node cannot start: one line that names the cause and what to do about it."""


class RunningNode:
    """A node that serves clients. `endpoints` are where it listens, with real ports; `broker` is for tests."""

    def __init__(
        self,
        broker: Broker,
        listeners: Sequence[BoundListener],
        server: Server,
        upkeep: Upkeep,
        directories: LogDirectories,
    ) -> None:
        self.broker = broker
        self.endpoints: tuple[Endpoint, ...] = tuple(listener.endpoint for listener in listeners)
        self._server = server
        self._upkeep = upkeep
        self._directories = directories

    @property
    def log_dirs(self) -> list[str]:
        """Where the data is."""
        return self._directories.paths

    async def stop(self) -> None:
        """Answer what is being asked, write everything down, and leave the directories marked as clean."""
        try:
            async with AsyncExitStack() as parts:  # Each is stopped, the last one first, even if another cannot be.
                parts.push_async_callback(self.broker.controller.stop)
                parts.push_async_callback(self._upkeep.stop)
                parts.push_async_callback(self._server.stop)
                await self.broker.groups.stop()  # First: members that wait for a rebalance would hold up the server.
            self._directories.close(broker_epoch=self.broker.broker_epoch)
        except KafkaError as error:
            logger.error("not everything could be written down, the next start recovers it: %s", error.message)
        finally:
            self._directories.abandon()  # Without effect on directories that were closed.
        logger.info("node %s stopped", self.broker.node_id)


async def start_node(config: BrokerConfig, surroundings: Surroundings | None = None) -> RunningNode:
    """Start a node on the running event loop; it serves when this returns. Raises StartError."""
    surroundings = surroundings or Surroundings()
    _refuse_what_is_not_yet(config)
    listeners: list[BoundListener] = []
    directories: LogDirectories | None = None
    try:
        _bind(config, surroundings, listeners)
        directories = LogDirectories(
            config.log_dirs, node_id=config.node_id, random=surroundings.random, disk=surroundings.disk
        )
        return await _start(config, surroundings, listeners, directories)
    except BaseException as error:
        for listener in listeners:
            listener.close()
        if directories is not None:
            directories.abandon()
        reason = _reason(error)
        if reason is None:
            raise
        raise StartError(reason) from error


def _refuse_what_is_not_yet(config: BrokerConfig) -> None:
    if config.is_broker and config.is_controller and max(len(config.voters), len(config.bootstrap_servers)) <= 1:
        return
    raise StartError(
        "process.roles must be broker,controller, and this node the only voter, for now: clusters of several nodes are"
        " not there yet"
    )


def _reason(error: BaseException) -> str | None:
    """The line for what a user can mend; None for a defect."""
    if isinstance(error, LogDirectoryError):
        return str(error)
    if isinstance(error, DecodeError):
        return f"the metadata log cannot be read: {error}"
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    return None


def _bind(config: BrokerConfig, surroundings: Surroundings, bound: list[BoundListener]) -> None:
    """Bind each listener and enter it in `bound`."""
    # Kafka's own sizes would be less than what the system finds out for each connection, and its backlog of 50 is full
    # at once when many clients come back together: only who sets these keys gets them.
    backlog = config.socket_listen_backlog_size if "socket.listen.backlog.size" in config.static else BACKLOG
    send_bytes = config.socket_send_buffer_bytes if "socket.send.buffer.bytes" in config.static else -1
    receive_bytes = config.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in config.static else -1
    for wanted in config.broker_listeners:
        try:
            listener = surroundings.bind(
                Endpoint(wanted.name, wanted.host, wanted.port),
                send_buffer_bytes=send_bytes,
                receive_buffer_bytes=receive_bytes,
                backlog=backlog,
            )
        except OSError as error:
            raise StartError(
                f"cannot listen on {wanted} ({error.strerror or error}): stop what uses the address, or set listeners"
            ) from error
        bound.append(listener)


async def _start(
    config: BrokerConfig, surroundings: Surroundings, listeners: Sequence[BoundListener], directories: LogDirectories
) -> RunningNode:
    settings = TopicSettingsTable(config)
    was_clean = directories.was_clean
    directories.open_all(lambda topic: _metadata_log_config(config) if topic == TOPIC else settings.settings({}).log)
    image = ClusterImage(directories.cluster_id)
    dynamic_configs = DynamicConfigs(config, image, config.node_id)
    controller = _controller(config, surroundings, directories, image)
    await controller.start()
    dynamic_configs.reload()
    settings.forget()
    known = image.brokers.get(config.node_id)
    broker_epoch = await join(
        controller,
        BrokerIdentity(
            node_id=config.node_id,
            incarnation_id=random_uuid(surroundings.random),
            endpoints=advertised_endpoints(config, [listener.endpoint for listener in listeners]),
            rack=config.broker_rack,
            previous_epoch=known.epoch if known is not None and was_clean else UNKNOWN_EPOCH,
        ),
    )
    upkeep = Upkeep(directories, _intervals(config), surroundings.now_ms)
    table = PartitionTable()
    replicas = LocalReplicas(
        node_id=config.node_id,
        image=image,
        table=table,
        directories=directories,
        settings=settings,
        upkeep=upkeep,
        now_ms=surroundings.now_ms,
    )
    replicas.open_all()
    broker = Broker(
        config=config,
        node_id=config.node_id,
        cluster_id=directories.cluster_id,
        image=image,
        partitions=table,
        replicas=replicas,
        controller=controller,
        handlers=load_handlers(),
        random=surroundings.random,
        fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, surroundings.random),
        broker_epoch=broker_epoch,
        now_ms=surroundings.now_ms,
    )
    broker.groups = GroupDriver(broker)
    dynamic_configs.on_change(replicas.configure_all)
    for listener in (dynamic_configs.on_metadata, replicas.on_metadata, broker.groups.on_metadata):
        controller.add_listener(listener)
    return await _serve(broker, listeners, upkeep, directories, dynamic_configs)


async def _serve(
    broker: Broker,
    listeners: Sequence[BoundListener],
    upkeep: Upkeep,
    directories: LogDirectories,
    dynamic_configs: DynamicConfigs,
) -> RunningNode:
    """Start what works in the background, and listen; if that fails, nothing is left at work."""
    async with AsyncExitStack() as undo:
        undo.push_async_callback(broker.groups.stop)
        broker.groups.start()
        undo.push_async_callback(upkeep.stop)
        upkeep.start()
        connections = Connections(Dispatcher(broker), _limits(broker.config), asyncio.get_running_loop())
        dynamic_configs.on_change(lambda: connections.set_limits(_limits(broker.config)))
        server = Server(connections)
        undo.push_async_callback(server.stop)
        await server.listen(listeners)
        undo.pop_all()
    return RunningNode(broker, listeners, server, upkeep, directories)


def _controller(
    config: BrokerConfig, surroundings: Surroundings, directories: LogDirectories, image: ClusterImage
) -> ControllerDriver:
    log = directories.create(TOPIC, 0, METADATA_TOPIC_ID, _metadata_log_config(config))
    return ControllerDriver(
        MetadataLog(log, directories.open_files.disk, config.node_id, surroundings.now_ms, _snapshot_limits(config)),
        image,
        ControllerSettings(
            rules=DefinedConfigs(config.static),
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topic_enable=config.delete_topic_enable,
            node_id=config.node_id,
        ),
        surroundings.random,
        node_id=config.node_id,
        now_ms=surroundings.now_ms,
    )


def _snapshot_limits(config: BrokerConfig) -> SnapshotLimits:
    return SnapshotLimits(
        max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def _metadata_log_config(config: BrokerConfig) -> LogConfig:
    """The metadata log keeps everything: nothing but a snapshot may stand in for a record."""
    return LogConfig(segment_bytes=config.metadata_log_segment_bytes, retention_ms=-1, cleanup_policy=frozenset())


def _intervals(config: BrokerConfig) -> UpkeepIntervals:
    return UpkeepIntervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_point_checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
    )


def _limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )
