"""Servers of the store within a test, on real sockets and disks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from examples.raft_kv.server import start_server
from examples.raft_kv.store import Store

from penstock.node.environment.environment import Environment
from penstock.replicated.node import ReplicatedNode
from penstock.replicated.options import NodeOptions


@asynccontextmanager
async def running(
    options: NodeOptions, environment: Environment | None = None, *, keeps_values_in: str = "memory"
) -> AsyncIterator[ReplicatedNode[Store]]:
    server = await start_server(options, environment, keeps_values_in=keeps_values_in)
    try:
        yield server
    finally:
        await server.stop()
