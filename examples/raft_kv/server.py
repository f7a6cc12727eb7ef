"""A server of the store: a node of `penstock.replicated` whose machine is the store, at whose port clients ask, too."""

from collections.abc import Callable

from examples.raft_kv.dispatch import StoreDispatcher
from examples.raft_kv.service import StoreService
from examples.raft_kv.store import Store
from examples.raft_kv.values import MemoryValues, SqliteFiles, Values
from penstock.node.environment.environment import Environment
from penstock.replicated.node import ReplicatedNode, start_node
from penstock.replicated.options import NodeOptions
from penstock.replicated.peers import QuorumPeer


async def start_server(
    options: NodeOptions, environment: Environment | None = None, *, keeps_values_in: str = "memory"
) -> ReplicatedNode[Store]:
    """Start a server on the running event loop; it listens when this returns. Raises NodeError."""
    in_files = keeps_values_in == "sqlite"
    make_values: Callable[[], Values] = SqliteFiles(options.directory) if in_files else MemoryValues
    return await start_node(options, lambda: Store(make_values()), environment, _dispatcher)


def _dispatcher(peer: QuorumPeer, node: ReplicatedNode[Store]) -> StoreDispatcher:
    return StoreDispatcher(peer, StoreService(node))
