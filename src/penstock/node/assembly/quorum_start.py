"""A node's part in the metadata quorum, put together and started: log, driver, controller, and its own listeners.

| node                                   | voters, as long as the log names none        | listens for peers |
| -------------------------------------- | -------------------------------------------- | ----------------- |
| with `controller.quorum.voters`        | those                                        | if a controller   |
| with `controller.quorum.bootstrap.servers` | none: a snapshot or a peer will say         | if a controller   |
| with neither                           | itself, a quorum of one                      | no                |

Every node takes part: a controller as a voter or as one that may become it, a broker as an observer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings, TokenSettings
from penstock.leadership.balancer import BalanceSettings
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.meta_properties import read_meta_properties
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.listener_keys import PREFIX
from penstock.metadata.configs.listeners import WITH_SASL, WITH_TLS, Listener
from penstock.metadata.image import ClusterImage
from penstock.node.api.local_controller import answered_here
from penstock.node.assembly.protection import UnprotectedError, Watch, authorizer_of, throttling_of
from penstock.node.controlling.channel import ControllerChannel
from penstock.node.controlling.controller_registration import ControllerRegistration
from penstock.node.controlling.driver import ControllerDriver
from penstock.node.environment.context import NodeContext
from penstock.node.environment.environment import Environment
from penstock.node.environment.event_loop import steady_clock
from penstock.node.metrics.counted import register_counts
from penstock.node.metrics.counts import NodeCounts
from penstock.node.metrics.registry import Gauge, Group, Registry
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.looking import Seen
from penstock.node.quorum.metadata_log import MetadataLog, SnapshotLimits
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.ports import Clock, Member, PeerLinks, Stores
from penstock.node.quorum.settings import raft_settings
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.advertise import advertised_endpoints
from penstock.node.serving.connection import Connection
from penstock.node.serving.connections import ConnectionLimits, Connections
from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.handler import CONTROLLER_HANDLERS, load_handlers
from penstock.node.serving.server import BACKLOG, Accept, BoundListener, Server
from penstock.node.serving.server import Endpoint as OwnEndpoint
from penstock.node.serving.slices import Slices
from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from penstock.protocol.uuids import ZERO_UUID, random_uuid
from penstock.raft.voters import DYNAMIC_VOTERS, STATIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

if TYPE_CHECKING:
    from penstock.node.assembly.audit_topic import AuditTopic
    from penstock.node.assembly.links import Links
    from penstock.node.assembly.sasl import NodeSasl
    from penstock.node.assembly.tls import NodeTls
    from penstock.node.controlling.policies import Judge, PolicedCommands
    from penstock.node.controlling.probes import Probes

logger = logging.getLogger(__name__)

CONTROLLERS_PART = 3
"""Of `queued.max.request.bytes` the controller's listener has a third part for itself."""


class QuorumParts:
    """The parts of a node that take part in the quorum. Making it starts nothing.

    `controller` and `controller_node` are None where the node is a broker only. `failed` is done when the quorum's
    driver gave up: then the node must end.
    """

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        directories: LogDirectories,
        listeners: Sequence[BoundListener],
        judges: Sequence[Judge],
        seen: Seen,
    ) -> None:
        image = ClusterImage(directories.cluster_id)
        counts = NodeCounts(config.penstock_metrics_max_topics)
        self.context = NodeContext(config, environment, directories, image, Registry(), counts)
        self.context.metrics.add(_offline_directories(directories), self._ignored_voters())
        register_counts(self.context.metrics, counts)
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.steady_ms = steady_clock(environment.now_ms)
        self.log = MetadataLog(image, environment.now_ms, _snapshot_limits(config), seen.bootstrap)
        self.watch = Watch(self.log, config, self.fail)
        self.authorizer = authorizer_of(self.context, self.log, self.watch)
        self.throttling = throttling_of(self.context, self.log, self.authorizer)
        self.controller: ControllerDriver | None = None
        self.controller_node: ControllerNode | None = None
        self._policed: PolicedCommands | None = None
        self._listeners = listeners
        self._seen = seen
        self._advertised = advertised_endpoints(
            config.advertised_controller_listeners, [listener.endpoint for listener in listeners]
        )
        self._server: Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._audit_topic: AuditTopic | None = None
        if config.is_controller:
            self.controller = ControllerDriver(
                self.log,
                controller_settings(config),
                environment.random,
                self.context.metrics,
                now_ms=self.steady_ms,
            )
            self._policed = _policed(self.controller, judges) if judges else None
        self.quorum = self._driver()
        self.quorum.on_failure.listen(self.fail)
        self.quorum.register(self.context.metrics)
        if self.controller is not None:
            self.controller_node = self._controller_node(self.controller)
        self.channel = ControllerChannel(
            self.context,
            self.quorum,
            self.log,
            None if self.controller_node is None else partial(answered_here, self.controller_node),
            lambda: self.links.remote_controller(),
        )
        self._registration = self._registering() if self._listeners else None
        self._probes = self._probing() if self.controller is not None and self._listeners else None

    def _controller_node(self, controller: ControllerDriver) -> ControllerNode:
        config = self.context.config
        return ControllerNode(
            config=config,
            node_id=config.node_id,
            cluster_id=self.context.directories.cluster_id,
            image=self.context.image,
            controller=self._policed or controller,
            quorum=self.quorum,
            handlers=load_handlers(CONTROLLER_HANDLERS) if self._listeners else {},
            authorizer=self.authorizer,
            throttling=self.throttling,
            hand_over=partial(_hand_over, self.quorum, controller),
            slices=Slices(config.queued_max_request_bytes // CONTROLLERS_PART, self.context.environment.clock_ns),
            metrics=self.context.metrics,
            now_ms=self.context.environment.now_ms,
        )

    @cached_property
    def links(self) -> Links:
        """A single node needs none."""
        from penstock.node.assembly.links import Links

        return Links(self.context, self)

    @cached_property
    def tls(self) -> NodeTls:
        """A node in the clear needs none."""
        from penstock.node.assembly.tls import NodeTls

        return NodeTls(self.context)

    @cached_property
    def sasl(self) -> NodeSasl:
        """A node on which nobody logs in needs none."""
        from penstock.node.assembly.sasl import NodeSasl

        return NodeSasl(self.context, self.log, self._seen.image.security, lambda: self.watch.has_begun)

    def secured(self, connections: Connections) -> Callable[[OwnEndpoint, Callable[[], Connection]], Accept]:
        """For a server: what accepts the connections of an endpoint, with a log-in or over TLS by its protocol."""

        def secured(endpoint: OwnEndpoint, accept: Callable[[], Connection]) -> Accept:
            protocol = endpoint.security_protocol
            if protocol in WITH_SASL:
                accept = partial(self.sasl.on(endpoint).accept, connections)
            return accept if protocol not in WITH_TLS else self.tls.over(endpoint, accept, connections)

        return secured

    def reload(self) -> None:
        """Settings of a running node have changed."""
        if "sasl" in self.__dict__:
            self.sasl.reload()
        if "tls" in self.__dict__:
            self.tls.refresh_soon()

    def closed(self, listener: str) -> None:
        """A listener of a running node has gone."""
        for part in self.__dict__.keys() & {"sasl", "tls"}:
            self.__dict__[part].closed(listener)

    @property
    def is_unprotected(self) -> bool:
        """Whether this node has to stop because it may serve no client."""
        return self.failed.done() and isinstance(self.failed.result(), UnprotectedError)

    async def start(self) -> None:
        """Take up what the disk holds, and take part. Raises the disk's errors, and those about its content."""
        await self.log.start(self.quorum)
        if self._ignores_voters:
            logger.info("the metadata log names the voters, and controller.quorum.voters counts for nothing any more")
        if self.controller_node is not None and self._listeners:
            limits = connection_limits(self.context.config)
            clock_ns = self.context.environment.clock_ns
            dispatcher = Dispatcher(self.controller_node, self.context.counts, clock_ns)
            connections = Connections(dispatcher, limits, asyncio.get_running_loop())
            self._server = Server(connections, self.secured(connections))
            config = self.context.config
            early = config.early_listeners if config.has_authorizer else config.controller_listener_names
            await self._server.listen([it for it in self._listeners if it.endpoint.listener in early])
            late = [it for it in self._listeners if it.endpoint.listener not in early]
            if late:
                self.watch.when_begun(partial(self._open, self._server, late))
        if self._registration is not None:
            self._registration.start()
        if self.context.config.penstock_authorizer_audit_topic:
            from penstock.node.assembly.audit_topic import begin

            self._audit_topic = begin(self.context, self.links)

    def _open(self, server: Server, listeners: Sequence[BoundListener]) -> None:
        """The access rules are here."""
        self._opening = asyncio.get_running_loop().create_task(server.listen(listeners))
        self._opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        if not opening.cancelled() and (error := opening.exception()) is not None:
            self.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    @property
    def _ignores_voters(self) -> bool:
        return bool(self.context.config.voters) and self.quorum.quorum.kraft_version >= DYNAMIC_VOTERS

    def _ignored_voters(self) -> Gauge:
        what = "1 where the metadata log names the voters, and controller.quorum.voters counts for nothing"
        return Gauge(Group.QUORUM, "ignored-static-voters", what, lambda: int(self._ignores_voters))

    async def stop(self) -> None:
        """Hand the lead to another, and take part no longer."""
        async with AsyncExitStack() as parts:  # Each is stopped, the last one first, even if another cannot be.
            parts.push_async_callback(self.log.close)
            if self._audit_topic is not None:
                parts.push_async_callback(self._audit_topic.stop)
            if "tls" in self.__dict__:
                parts.push_async_callback(self.tls.stop)
            if "sasl" in self.__dict__:
                parts.push_async_callback(self.sasl.stop)
            if self._policed is not None:
                parts.push_async_callback(self._policed.close)
            if self._server is not None:
                parts.push_async_callback(self._server.stop)
            if self._opening is not None:
                self._opening.cancel()
            parts.push_async_callback(self.quorum.stop)
            parts.push_async_callback(self.channel.stop)
            if self._probes is not None:
                parts.push_async_callback(self._probes.stop)
            if self._registration is not None:
                await self._registration.stop()
            if self.controller is not None:
                self.controller.resign()

    def _registering(self) -> ControllerRegistration:
        """Only a controller that others can reach has something to register."""
        incarnation_id, node_id = random_uuid(self.context.environment.random), self.context.node_id
        return ControllerRegistration(node_id, incarnation_id, self._advertised, self.channel, self.log)

    def _probing(self) -> Probes | None:
        assert self.controller is not None
        return self.links.probes(self.controller, self.log, self.steady_ms)

    def _driver(self) -> QuorumDriver:
        config, environment, directories = self.context.config, self.context.environment, self.context.directories
        log = directories.create(CLUSTER_METADATA, 0, CLUSTER_METADATA_ID, metadata_log_config(config))
        disk = directories.open_files.disk
        snapshots, state = StoredSnapshots(disk, log.directory, log.health), StateFile(disk, log.directory, log.health)
        identity = read_meta_properties(disk, log.parent)
        directory_id = identity.directory_id if identity is not None else None
        local = Voter(
            ReplicaKey(config.node_id, directory_id or ZERO_UUID),
            tuple(Endpoint(endpoint.listener, endpoint.host, endpoint.port) for endpoint in self._advertised),
        )
        return QuorumDriver(
            Member(local, _configured(config, local), raft_settings(config)),
            Stores(StoredLog(log, snapshots), snapshots, state, directories.threads_of(log)),
            self._peers(local),
            self.log,
            Clock(environment.now_ms, environment.elapsed_s if config.refuses_without_lease else None),
            environment.random,
        )

    def _peers(self, local: Voter) -> PeerLinks:
        """The way to the others; a node that is its own quorum, and that no other can reach, has none."""
        config = self.context.config
        if not (config.voters or config.bootstrap_servers or local.endpoints):
            return NoPeers()
        return self.links.peers(_listener_name(config), local.endpoints)

    def fail(self, error: Exception) -> None:
        """End this node: something failed that nothing here can make up for."""
        if self.controller is not None:
            self.controller.resign()
            asyncio.get_running_loop().call_soon(self.log.resign)  # it may be the log that tells of the failure
        if not self.failed.done():
            self.failed.set_result(error)


def judges_of(config: BrokerConfig) -> Sequence[Judge]:
    """The policies that a controller's configuration names. Raises KafkaError INVALID_CONFIG."""
    keys = (
        config.penstock_policy_file,
        config.create_topic_policy_class_name,
        config.alter_config_policy_class_name,
    )
    if not config.is_controller or not any(keys):
        return ()
    from penstock.node.controlling.policies import load_judges

    return load_judges(config)


def _policed(controller: ControllerDriver, judges: Sequence[Judge]) -> PolicedCommands:
    from penstock.node.controlling.policies import PolicedCommands

    return PolicedCommands(controller, judges)


async def _hand_over(quorum: QuorumDriver, controller: ControllerDriver, successor_id: int) -> None:
    from penstock.node.controlling.transfer import hand_over  # a single node starts without what it never needs

    await hand_over(quorum, controller, successor_id)


def _offline_directories(directories: LogDirectories) -> Gauge:
    roots = directories.roots
    return Gauge(Group.LOGS, "OfflineLogDirectoryCount", "Log directories that failed", lambda: len(roots.offline))


def bind_listener(config: BrokerConfig, environment: Environment, wanted: Listener) -> BoundListener:
    """Raises OSError."""
    # Kafka's own sizes would be less than what the system finds out for each connection, and its backlog of 50 is full
    # at once when many clients come back together: they hold only where these keys are set.
    is_set = config.static.__contains__
    return environment.bind(
        OwnEndpoint(wanted.name, wanted.host, wanted.port, wanted.security_protocol),
        send_buffer_bytes=config.socket_send_buffer_bytes if is_set("socket.send.buffer.bytes") else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if is_set("socket.receive.buffer.bytes") else -1,
        backlog=config.socket_listen_backlog_size if is_set("socket.listen.backlog.size") else BACKLOG,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        max_connections_of=_of_listeners(config, "max.connections"),
        creation_rate=config.max_connection_creation_rate,
        creation_rate_of=_of_listeners(config, "max.connection.creation.rate"),
        protected_listener=config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None,
        rate_window_s=config.quota_window_size_seconds,
        max_frame_bytes=config.socket_request_max_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )


def _of_listeners(config: BrokerConfig, key: str) -> dict[str, int]:
    """The limits of those listeners that have one of their own."""
    texts = {name: config.text(f"{PREFIX}{name.lower()}.{key}") for name in config.listener_names}
    return {name: int(text) for name, text in texts.items() if text is not None}


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """The metadata log keeps everything: nothing but a snapshot may stand in for a record."""
    return LogConfig(segment_bytes=config.metadata_log_segment_bytes, retention_ms=-1, cleanup_policy=frozenset())


def controller_settings(config: BrokerConfig) -> ControllerSettings:
    return ControllerSettings(
        rules=DefinedConfigs(config.static),
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        node_id=config.node_id,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        leader_balance=BalanceSettings(
            interval_ms=config.leader_imbalance_check_interval_seconds * 1000
            if config.auto_leader_rebalance_enable and config.leader_balance_enable
            else None,
            least_percent=config.leader_imbalance_per_broker_percentage,
            timeout_ms=config.leader_balance_move_timeout_ms,
            handover_ms=config.leader_handover_timeout_ms,
        ),
        has_authorizer=config.has_authorizer,
        unclean_election_interval_ms=config.unclean_leader_election_interval_ms,
        tokens=_token_settings(config),
        leases=config.refuses_without_lease,
    )


def _token_settings(config: BrokerConfig) -> TokenSettings | None:
    secret = config.delegation_token_secret_key
    if not secret:
        return None
    from penstock.protocol.secret import Secret

    return TokenSettings(
        Secret(secret),
        config.delegation_token_expiry_time_ms,
        config.delegation_token_max_lifetime_ms,
        config.delegation_token_expiry_check_interval_ms,
    )


def _snapshot_limits(config: BrokerConfig) -> SnapshotLimits:
    return SnapshotLimits(
        max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def _configured(config: BrokerConfig, local: Voter) -> Quorum:
    if config.voters:
        name = _listener_name(config)
        return Quorum.of(
            [
                Voter(ReplicaKey(voter.node_id), (Endpoint(name, voter.host, voter.port),))
                for voter in config.voters.values()
            ],
            STATIC_VOTERS,
        )
    if config.bootstrap_servers:
        return Quorum()
    return Quorum.of([Voter(ReplicaKey(local.key.id))], STATIC_VOTERS)


def _listener_name(config: BrokerConfig) -> str:
    names = config.controller_listener_names
    return names[0] if names else "CONTROLLER"
