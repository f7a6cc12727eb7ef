"""Who leads, who votes, and how servers come and go while the machine runs: by Kafka's own requests.

A server that is to be added runs already and follows the log; it votes as soon as it has caught up. One that is removed
is told so by the log, goes on following it, and may be stopped.
"""

from collections.abc import Sequence
from uuid import UUID

from penstock.client.admin import Admin
from penstock.client.admin.quorum import QuorumEndpoint, QuorumInfo
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.options import LISTENER

SETTINGS = ClientSettings(client_id="replicated", request_timeout_ms=10_000, default_api_timeout_ms=30_000)


async def describe(addresses: Sequence[Address], settings: ClientSettings = SETTINGS) -> QuorumInfo:
    """Who leads, who votes, who follows."""
    async with Admin(addresses, settings, of_controllers=True) as admin:
        return await admin.quorum.describe()


async def add_peers(
    addresses: Sequence[Address], servers: Sequence[ServerAddress], settings: ClientSettings = SETTINGS
) -> None:
    """Let these servers vote, one after the other. Raises KafkaError."""
    async with Admin(addresses, settings, of_controllers=True) as admin:
        for server in servers:
            directory_id = await admin.cluster.retrying(lambda server=server: _following(admin, server))  # type: ignore[misc]  # a default
            endpoint = QuorumEndpoint(LISTENER, server.host, server.port)
            await admin.quorum.add_voter(server.id, directory_id, [endpoint])


async def remove_peers(addresses: Sequence[Address], ids: Sequence[int], settings: ClientSettings = SETTINGS) -> None:
    """Let these servers vote no longer, one after the other. Raises KafkaError."""
    async with Admin(addresses, settings, of_controllers=True) as admin:
        for node_id in ids:
            info = await admin.quorum.describe()
            found = [voter for voter in info.voters if voter.node_id == node_id]
            if not found:
                raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"server {node_id} is not a voter")
            await admin.quorum.remove_voter(node_id, found[0].directory_id)


async def _following(admin: Admin, server: ServerAddress) -> UUID:
    """The disk of a server that follows. Raises KafkaError; the server may still be starting."""
    info = await admin.quorum.describe()
    if any(voter.node_id == server.id for voter in info.voters):
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"server {server.id} is a voter already")
    for observer in info.observers:
        if observer.node_id == server.id:
            return observer.directory_id
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"server {server} does not follow the leader: start it first")
