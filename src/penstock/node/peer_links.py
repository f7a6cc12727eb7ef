"""How a node reaches the others of its cluster: peers in the quorum, the active controller, and leaders it follows."""

from collections.abc import Callable, Sequence

from penstock.client.address import Address
from penstock.client.cluster import ClusterClient
from penstock.client.connection import Connection, connect
from penstock.client.errors import ClusterUnreachableError
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.controlling.remote import RemoteController
from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher
from penstock.node.quorum.peers import Peers
from penstock.node.storage_groups.links import GroupLinks
from penstock.node.surroundings import Surroundings
from penstock.raft.voters import Endpoint

BACKOFF_MS = 50
BACKOFF_MAX_MS = 500


def peers(
    config: BrokerConfig,
    surroundings: Surroundings,
    cluster_id: str,
    listener_name: str,
    own_endpoints: Sequence[Endpoint],
) -> Peers:
    """The links to the other replicas of the metadata log."""
    return Peers(
        settings=_settings(config, surroundings, config.controller_quorum_request_timeout_ms),
        cluster_id=cluster_id,
        node_id=config.node_id,
        listener_name=listener_name,
        listeners=own_endpoints,
        bootstrap=[Address(server.host, server.port) for server in config.bootstrap_servers],
    )


def group_links(config: BrokerConfig, surroundings: Surroundings, image: ClusterImage) -> GroupLinks:
    """The links to the other replicas of storage groups."""

    def listens_at(node_id: int) -> Endpoint | None:
        address = _address_of(node_id, config, image)
        name = config.inter_broker_listener_name
        return None if address is None else Endpoint(name, address.host, address.port)

    settings = _settings(config, surroundings, config.controller_quorum_request_timeout_ms)
    return GroupLinks(settings, image.cluster_id, config.node_id, listens_at)


def remote_controller(config: BrokerConfig, surroundings: Surroundings) -> RemoteController:
    """The way to a controller on another node."""
    own_timeout_ms = max(min(config.request_timeout_ms, config.broker_session_timeout_ms // 2), 1)
    return RemoteController(_settings(config, surroundings, config.request_timeout_ms), own_timeout_ms)


def cluster_client(config: BrokerConfig, surroundings: Surroundings, image: ClusterImage) -> ClusterClient:
    """This node as a client of the brokers of its cluster."""
    listener = config.inter_broker_listener_name
    endpoints = [broker.endpoint(listener) for broker in image.brokers.values() if not broker.fenced]
    addresses = [Address(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint is not None]
    return ClusterClient(addresses, _settings(config, surroundings, config.request_timeout_ms))


async def broker_connection(
    broker_id: int, config: BrokerConfig, surroundings: Surroundings, image: ClusterImage
) -> Connection:
    """A connection to another broker. ClientError if there is none to be had."""
    address = _address_of(broker_id, config, image)
    if address is None:
        raise ClusterUnreachableError(f"nobody has said where broker {broker_id} listens")
    return await connect(address, _settings(config, surroundings, config.request_timeout_ms))


def _address_of(broker_id: int, config: BrokerConfig, image: ClusterImage) -> Address | None:
    broker = image.brokers.get(broker_id)
    endpoint = None if broker is None else broker.endpoint(config.inter_broker_listener_name)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


def replica_fetcher(
    leader_id: int,
    config: BrokerConfig,
    surroundings: Surroundings,
    image: ClusterImage,
    broker_epoch: Callable[[], int],
) -> ReplicaFetcher:
    """What follows the partitions that another broker leads."""
    return ReplicaFetcher(
        leader_id,
        Follower(
            node_id=config.node_id,
            broker_epoch=broker_epoch,
            config=config,
            settings=_settings(config, surroundings, config.replica_socket_timeout_ms),
            address_of=lambda node_id: _address_of(node_id, config, image),
        ),
    )


def _settings(config: BrokerConfig, surroundings: Surroundings, request_timeout_ms: int) -> ClientSettings:
    """How this node behaves as a client of others."""
    return ClientSettings(
        client_id=f"penstock-{config.node_id}",
        request_timeout_ms=max(request_timeout_ms, 1),
        socket_connection_setup_timeout_ms=max(config.controller_quorum_request_timeout_ms, 1),
        retry_backoff_ms=BACKOFF_MS,
        retry_backoff_max_ms=BACKOFF_MAX_MS,
        now_ms=surroundings.now_ms,
        random=surroundings.random,
    )
