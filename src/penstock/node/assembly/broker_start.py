"""The broker of a node, put together, started and stopped: registration, logs, groups, upkeep, listeners.

| step                                              | what can go wrong                                     |
| ------------------------------------------------- | ----------------------------------------------------- |
| register at the active controller, catch up       | no controller is found, or it refuses this broker     |
| open the logs that the metadata gives to it       | damaged                                               |
| be let in                                         | no controller is found any more                       |
| start groups and upkeep, then listen              |                                                       |
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.metadata.brokers import FENCE
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.node.api.broker.init_producer_id import TWO_PHASES_SINCE
from penstock.node.api.telemetry import HANDLERS as OF_TELEMETRY
from penstock.node.assembly.dynamic_configs import AddedListeners, DynamicConfigs
from penstock.node.assembly.quorum_start import QuorumParts, connection_limits
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.controlling.broker_lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleTimes
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.topic_creation import create_missing
from penstock.node.coordinators.errands import Errands
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.host import HostContext
from penstock.node.environment.context import NodeContext
from penstock.node.partitions.cleaner import Cleaner
from penstock.node.partitions.hand_overs import HandOvers
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.replica_directories import ReplicaDirectories
from penstock.node.partitions.replica_fetchers import Fetcher, ReplicaFetchers
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.partitions.upkeep import Upkeep, UpkeepIntervals
from penstock.node.roles.broker import Broker, HeldLogs
from penstock.node.serving.advertise import advertised_endpoints
from penstock.node.serving.connections import Connections
from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.handler import Handler, load_handlers
from penstock.node.serving.server import BoundListener, Server
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import process_uuid

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.log.config import LogConfig
    from penstock.node.partitions.hand_over import Resident
    from penstock.node.partitions.hand_overs import Connect
    from penstock.node.partitions.partition import Partition
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.links import GroupLinks
    from penstock.node.telemetry.receiver import TelemetryReceiver


OF_BROKERS: Final = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    FenceBrokerRecord,
    BrokerRegistrationChangeRecord,
)
"""Records after which a broker may be fenced, or gone."""


class BrokerParts:
    """The parts of a node that serve clients. Making it starts nothing.

    `ended` is done when the broker cannot go on: another process took its id.
    """

    def __init__(
        self, parts: QuorumParts, settings: TopicSettingsTable, listeners: Sequence[BoundListener], *, was_clean: bool
    ) -> None:
        node, config, environment = parts.context, parts.context.config, parts.context.environment
        context = BrokerContext(node, parts.channel, _lease(node), telemetry=_telemetry(node))
        self._parts, self._listeners, loop = parts, listeners, asyncio.get_running_loop()
        self.ended: asyncio.Future[Exception] = loop.create_future()
        self.upkeep = Upkeep(node.directories, _intervals(config), environment.now_ms)
        table, groups = PartitionTable(node.counts.topics), StorageGroups()
        neighbours = self._neighbours = _Neighbours(self, parts)
        self.fetchers = ReplicaFetchers(config, partial(self._fetcher, context.lease))
        self.upkeep.kept_until_consumed.listen(lambda partition: self.broker.consumed.look_at(partition))
        self.replicas = LocalReplicas(context, table, groups, settings, self.upkeep, self.fetchers)
        self.in_sync, throttles = self.replicas.in_sync, self.replicas.throttles
        self.hand_overs = HandOvers(context, table, neighbours)
        self.in_sync.unwritable.listen(self.hand_overs.on_unwritable)
        self.hand_overs.full.has_room.listen(self.replicas.obey_late)
        self._errands = Errands(context, neighbours.connect)
        self.moves = DirectoryMoves(node, table, throttles.directories, self.replicas.on_moved)
        self.replicas.dropped.listen(self.moves.forget)
        self.cleaner = Cleaner(node, table)
        self.broker = Broker(
            context,
            HeldLogs(
                partitions=table,
                replicas=self.replicas,
                moves=self.moves,
                cleaner=self.cleaner,
                storage_groups=groups,
            ),
            GroupCoordinator(config, self._host_context(table), environment.random),
            handlers=_handlers(context),
            quorum=parts.quorum,
            authorizer=parts.authorizer,
        )
        self.replicas.dropped.listen(self.broker.on_dropped)
        self.group_keeper = GroupKeeper(context, groups, neighbours)
        self.replica_directories = ReplicaDirectories(context, self.replicas.misplaced)
        self.dynamic_configs = DynamicConfigs(config, node.image, config.node_id)
        self.dynamic_configs.on_change(settings.forget)
        self.dynamic_configs.on_change(throttles.configure)
        self.dynamic_configs.on_change(parts.reload)
        self.dynamic_configs.on_change(lambda: node.directories.roots.cordon(config.cordoned_log_dirs))
        dispatcher = Dispatcher(self.broker, node.counts, environment.clock_ns)
        self.connections = Connections(dispatcher, connection_limits(config), loop, parts.throttling)
        self._server = Server(self.connections, parts.secured(self.connections))
        self._added_listeners = AddedListeners(config, environment, self._server, parts.closed)
        self.lifecycle = BrokerLifecycle(
            _identity(parts, listeners, was_clean=was_clean),
            parts.channel,
            parts.log,
            _times(config),
            lease=context.lease,
            on_replaced=self._end,
        )

    def _host_context(self, table: PartitionTable) -> HostContext:
        async def create_topic(name: str) -> None:
            for code in (await create_missing(config, context.image, self._parts.channel, [name])).values():
                raise KafkaError(code)

        context, config = self._parts.context, self._parts.context.config
        return HostContext(
            node_id=context.node_id,
            image=context.image,
            partitions=table,
            hold_missing=self.replicas.hold_missing,
            may_lead=lambda partition: self.broker.may_lead(partition),
            create_topic=create_topic,
            now_ms=context.now_ms,
            errands=self._errands,
        )

    def on_directory_failed(self, path: str) -> None:
        self.replicas.on_directory_failed(path)
        self.group_keeper.on_directory_failed(path)
        self.lifecycle.tell_of_directories()

    def _fetcher(self, lease: BrokerLease, leader_id: int) -> Fetcher:
        return self._parts.links.replica_fetcher(leader_id, lease)

    def _end(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    async def start(self) -> None:
        """Join the cluster and serve. If that fails, nothing is left at work."""
        try:
            await self._start()
        except (Exception, asyncio.CancelledError):
            await self._stop()
            raise

    async def _start(self) -> None:
        await self.lifecycle.register()
        self._parts.watch.begin()
        self.dynamic_configs.reload()
        self._listen_to_metadata()
        await self.replicas.open_all()
        await self.lifecycle.unfence()
        self.replica_directories.start()
        self.broker.coordinators.start()
        self.upkeep.start()
        self.in_sync.start()
        self.hand_overs.start()
        self.moves.start()
        self.cleaner.start()
        await self.group_keeper.start()
        await self._server.listen(self._listeners)
        self.dynamic_configs.on_change(self._added_listeners.follow)
        self._added_listeners.follow()

    async def stop(self) -> None:
        """Hand over what this broker leads, and serve no client any more."""
        parts = self._parts
        if parts.is_unprotected:
            await self._server.stop()
        await self._stop(hand_over=parts.context.config.controlled_shutdown_enable and parts.quorum.failure is None)

    async def _stop(self, *, hand_over: bool = False) -> None:
        async with AsyncExitStack() as parts:  # Each is stopped, the last one first, even if another cannot be.
            parts.push_async_callback(self._parts.channel.stop)
            parts.push_async_callback(self.upkeep.stop)
            parts.push_async_callback(self.cleaner.stop)
            parts.push_async_callback(self.in_sync.stop)
            parts.push_async_callback(self.fetchers.stop)
            parts.push_async_callback(self.moves.stop)
            parts.push_async_callback(self._errands.stop)
            parts.push_async_callback(self.broker.stop)
            parts.push_async_callback(self.replica_directories.stop)
            parts.push_async_callback(self._server.stop)
            parts.push_async_callback(self._added_listeners.stop)
            # Before the server: members that wait for a rebalance would hold it up.
            parts.push_async_callback(self.broker.coordinators.stop)
            parts.push_async_callback(self.broker.stop_sharing)
            # Before the server as well: what was produced waits for the others to fetch it.
            parts.push_async_callback(self.group_keeper.stop)
            parts.push_async_callback(self.hand_overs.stop)
            await self.group_keeper.resign(hand_over=hand_over)
            await self.hand_overs.settle_groups()
            if hand_over and self._parts.context.config.leader_handover_timeout_ms:
                await self.hand_overs.give_away()
            await self.lifecycle.leave(hand_over=hand_over)
            await self.hand_overs.settle()
            self.replicas.stop()

    def _listen_to_metadata(self) -> None:
        config, coordinators = self._parts.context.config, self.broker.coordinators
        self.dynamic_configs.on_change(self.replicas.configure_all)
        self.dynamic_configs.on_change(self.lifecycle.beat_soon)
        self.dynamic_configs.on_change(lambda: self.connections.set_limits(connection_limits(config)))
        log = self._parts.log
        log.add_listener(self.dynamic_configs.on_metadata, self.dynamic_configs.reload)
        log.add_listener(self.group_keeper.on_metadata, self.group_keeper.on_new_image)
        log.add_listener(self.replicas.on_metadata, self.replicas.on_new_image)
        log.add_listener(coordinators.on_metadata, coordinators.on_new_image)
        log.add_listener(self._neighbours.on_metadata, self._neighbours.on_new_image)
        log.add_listener(self._errands.on_metadata, self._errands.on_new_image)
        self.replicas.has_settled.listen(coordinators.follow)
        self.replicas.found_misplaced.listen(self.replica_directories.wake)
        self._parts.channel.await_follower(self.replicas.settled)


class _Neighbours:
    """What hand-overs and storage groups need of their broker, which is made after them, and the way to all others.

    A broker that hangs keeps its connections, and answers nothing. Who waits for it hears so as soon as it is fenced:
    from then on others do what it was asked for. One that stops is fenced as well, and still answers; but not one that
    falls silent while it does.
    """

    def __init__(self, parts: BrokerParts, quorum: QuorumParts) -> None:
        self._parts = parts
        self._quorum = quorum
        self._reached: dict[Connection, int] = {}
        """The connections that are open, and to which broker."""

    async def connect(self, broker_id: int) -> Connection:
        connection = await self._quorum.links.to_broker(broker_id)
        self._reached = {one: to for one, to in self._reached.items() if not one.closed}
        self._reached[connection] = broker_id
        return connection

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        if self._reached and any(isinstance(record, OF_BROKERS) for record in records):
            changes = [record for record in records if isinstance(record, BrokerRegistrationChangeRecord)]
            self._look(silent=[change.broker_id for change in changes if _fell_silent(change)])

    def on_new_image(self) -> None:
        self._look(silent=())

    def _look(self, silent: Collection[int]) -> None:
        for connection, broker_id in list(self._reached.items()):
            broker = self._quorum.context.image.brokers.get(broker_id)
            stops = broker is not None and broker.in_controlled_shutdown and broker_id not in silent
            if broker is None or (broker.fenced and not stops):
                connection.abort(f"broker {broker_id} is fenced")

    def group(self, number: int) -> StorageGroup | None:
        return self._parts.broker.storage_groups.group(number)

    def resident_of(self, partition: Partition, connect: Connect) -> Resident | None:
        return self._parts.broker.coordinators.departure_from(partition, connect)

    async def prepare(self, partition: Partition) -> None:
        await self._parts.broker.coordinators.before_departure(partition)

    def config_of(self, topic: str) -> LogConfig:
        return self._parts.replicas.config_of(topic)

    def links(self) -> GroupLinks:
        return self._quorum.links.to_storage_groups()

    async def hand_over_group(self, group: StorageGroup, successor: int) -> bool:
        return await self._parts.hand_overs.hand_over_group(group, successor)

    def on_group(self, topic_id: UUID, index: int) -> None:
        self._parts.replicas.on_group(topic_id, index)


def _fell_silent(change: BrokerRegistrationChangeRecord) -> bool:
    """A broker that stops is fenced at its own wish, and the record says so (`_stop` in `controller/brokers.py`)."""
    return change.fenced == FENCE and not change.in_controlled_shutdown


def _telemetry(node: NodeContext) -> TelemetryReceiver | None:
    """Where the node tells its figures, it tells those of clients as well."""
    if node.config.metrics_address is None and node.config.otlp_endpoint is None:
        return None
    from penstock.node.telemetry.receiver import TelemetryReceiver

    return TelemetryReceiver(node.image, node.config.telemetry_max_bytes)


def _handlers(context: BrokerContext) -> dict[int, Handler]:
    """Clients are told of the APIs for their metrics only where somebody takes them, as in Kafka."""
    left_out = OF_TELEMETRY if context.telemetry is None else {}
    handlers = {key: handler for key, handler in load_handlers().items() if key not in left_out}
    if context.node.config.transaction_two_phase_commit_enable:
        init = handlers[ApiKey.INIT_PRODUCER_ID]
        handlers[ApiKey.INIT_PRODUCER_ID] = init.replace(newest=TWO_PHASES_SINCE)
    return handlers


def _lease(node: NodeContext) -> BrokerLease:
    config, elapsed_s = node.config, node.environment.elapsed_s
    while_awake = not config.refuses_without_lease
    return BrokerLease(config.broker_session_timeout_ms, elapsed_s, node.metrics, while_awake=while_awake)


def _identity(parts: QuorumParts, listeners: Sequence[BoundListener], *, was_clean: bool) -> BrokerIdentity:
    context = parts.context
    config, directories = context.config, context.directories
    return BrokerIdentity(
        node_id=config.node_id,
        incarnation_id=process_uuid(context.now_ms(), context.environment.random),
        endpoints=advertised_endpoints(config.advertised_listeners, [listener.endpoint for listener in listeners]),
        rack=config.broker_rack,
        log_dirs=lambda: directories.roots.online_ids,
        offline_log_dirs=lambda: directories.roots.offline_ids,
        cordoned_log_dirs=lambda: directories.roots.cordoned_ids,
        previous_epoch=directories.roots.clean_broker_epoch if was_clean else -1,
    )


def _times(config: BrokerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        directory_failure_timeout_ms=config.log_dir_failure_timeout_ms,
        votes=config.is_controller,
    )


def _intervals(config: BrokerConfig) -> UpkeepIntervals:
    return UpkeepIntervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_point_checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
        flush_timeout_ms=config.log_flush_timeout_ms,
    )
