"""How a node reaches the others of its cluster: the one place in which its connections to them begin.

| to whom                        | what for                                                |
| ------------------------------ | ------------------------------------------------------- |
| other voters and controllers   | the metadata quorum, commands to the active controller  |
| replicas of storage groups     | their logs, and copies of what a disk has lost          |
| other brokers                  | following what they lead, handing over                  |
| all brokers, from controllers  | nothing is asked: whether their processes live          |
| brokers, as a client           | the audit log's topic                                   |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.client.connection import Connection, KnownNode, connect
from penstock.client.errors import ClusterUnreachableError
from penstock.client.security import WITH_SASL, WITH_TLS, Security
from penstock.client.settings import ClientSettings, ProducerSettings
from penstock.node.api.commands import OF_NODES
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.probes import Probes, ProbeSettings, Sessions
from penstock.node.controlling.remote import RemoteController
from penstock.node.environment.context import NodeContext
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.quorum.peers import Peers, Place
from penstock.node.storage_groups.links import GroupLinks
from penstock.protocol.address import Address
from penstock.raft.voters import Endpoint

if TYPE_CHECKING:
    from penstock.client.producer import Producer
    from penstock.node.assembly.sasl import NodeSasl
    from penstock.node.assembly.tls import NodeTls
    from penstock.node.partitions.replica_fetcher import ReplicaFetcher

BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 500
LOOK_UP_MS: Final = 5_000
"""How long a topic may have no leader before that is an error."""


class Secured(Protocol):
    """What a node has for listeners with TLS, and for those on which it logs in."""

    @property
    def tls(self) -> NodeTls: ...
    @property
    def sasl(self) -> NodeSasl: ...


class Links:
    def __init__(self, context: NodeContext, secured: Secured) -> None:
        self._context = context
        self._secured = secured

    def peers(self, listener_name: str, own_endpoints: Sequence[Endpoint]) -> Peers:
        config = self._context.config
        return Peers(
            self._settings(config.controller_quorum_request_timeout_ms, listener_name),
            Place(
                cluster_id=self._context.directories.cluster_id,
                node_id=config.node_id,
                listener_name=listener_name,
                listeners=tuple(own_endpoints),
                bootstrap=config.bootstrap_servers,
            ),
        )

    def to_storage_groups(self) -> GroupLinks:
        config, image = self._context.config, self._context.image

        def listens_at(node_id: int) -> Endpoint | None:
            address = self._address_of(node_id)
            name = config.inter_broker_listener_name
            return None if address is None else Endpoint(name, address.host, address.port)

        settings = self._settings(config.controller_quorum_request_timeout_ms, config.inter_broker_listener_name)
        return GroupLinks(settings, image.cluster_id, config.node_id, listens_at)

    def probes(self, sessions: Sessions, log: MetadataLog, now_ms: Callable[[], int]) -> Probes | None:
        """None where the end of a session alone may fence a broker: a lease is not over before."""
        config = self._context.config
        patience_ms = config.broker_session_refused_timeout_ms
        if patience_ms < 0 or config.refuses_without_lease:
            return None
        settings = ProbeSettings(config.node_id, config.inter_broker_listener_name, patience_ms)
        return Probes(settings, sessions, log, self._context.metrics, now_ms)

    def remote_controller(self) -> RemoteController:
        config = self._context.config
        own_timeout_ms = max(min(config.request_timeout_ms, config.broker_session_timeout_ms // 2), 1)
        settings = self._settings(config.request_timeout_ms, config.controller_listener_names[0])
        return RemoteController(settings, own_timeout_ms, OF_NODES)

    async def to_broker(self, broker_id: int) -> Connection:
        """ClientError if the broker cannot be reached."""
        address = self._address_of(broker_id)
        if address is None:
            raise ClusterUnreachableError(f"the metadata do not say where broker {broker_id} listens")
        config, node = self._context.config, KnownNode(self._context.image.cluster_id, broker_id)
        return await connect(
            address, self._settings(config.request_timeout_ms, config.inter_broker_listener_name), node
        )

    def replica_fetcher(self, leader_id: int, lease: BrokerLease) -> ReplicaFetcher:
        from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher  # a single node follows nobody

        config = self._context.config
        return ReplicaFetcher(
            leader_id,
            Follower(
                node_id=config.node_id,
                cluster_id=self._context.image.cluster_id,
                lease=lease,
                config=config,
                settings=self._settings(config.replica_socket_timeout_ms, config.inter_broker_listener_name),
                disks=self._context.directories,
                address_of=self._address_of,
            ),
        )

    def _address_of(self, broker_id: int) -> Address | None:
        broker = self._context.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._context.config.inter_broker_listener_name)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def producer(self) -> Producer | None:
        """For a topic, as clients have it; None while no broker is known."""
        from penstock.client.producer import Producer

        config, image = self._context.config, self._context.image
        places = [place for broker_id in image.brokers if (place := self._address_of(broker_id)) is not None]
        seams = self._seams(config.request_timeout_ms, config.inter_broker_listener_name)
        settings = ProducerSettings(
            **seams,
            linger_ms=0,
            delivery_timeout_ms=config.request_timeout_ms,
            max_block_ms=LOOK_UP_MS,
            allow_auto_create_topics=False,
        )
        return Producer(places, settings) if places else None

    def _settings(self, request_timeout_ms: int, listener: str) -> ClientSettings:
        """For connections to a listener of another node."""
        return ClientSettings(**self._seams(request_timeout_ms, listener))

    def _seams(self, request_timeout_ms: int, listener: str) -> Mapping[str, Any]:
        config, environment = self._context.config, self._context.environment
        protocol = config.protocol_of(listener)
        return {
            "client_id": f"penstock-{config.node_id}",
            "request_timeout_ms": max(request_timeout_ms, 1),
            "socket_connection_setup_timeout_ms": max(config.controller_quorum_request_timeout_ms, 1),
            "retry_backoff_ms": BACKOFF_MS,
            "retry_backoff_max_ms": BACKOFF_MAX_MS,
            "connections_max_idle_ms": -1,  # the node at the other end closes what is idle
            "now_ms": environment.now_ms,
            "random": environment.random,
            "security_protocol": protocol,
            "security": self._security(listener, protocol),
        }

    def _security(self, listener: str, protocol: str) -> Security:
        credentials = self._secured.sasl.credentials_at(listener) if protocol in WITH_SASL else None
        if protocol in WITH_TLS:
            return self._secured.tls.asking(listener, credentials)
        return Security(credentials=credentials)
