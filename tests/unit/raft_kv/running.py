"""Servers of the store within a test, on real sockets and disks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from examples.raft_kv.options import ServerOptions
from examples.raft_kv.server import RunningServer, start_server

from penstock.node.environment.environment import Environment


@asynccontextmanager
async def running(options: ServerOptions, environment: Environment | None = None) -> AsyncIterator[RunningServer]:
    server = await start_server(options, environment)
    try:
        yield server
    finally:
        await server.stop()
