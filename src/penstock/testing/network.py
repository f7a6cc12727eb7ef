"""The network between the nodes of a cluster for tests, and between them and clients: it can be cut for each node.

In front of each listener stands a proxy, and nodes and clients get the proxy's address. While a node is cut off, no
byte passes between it and any other host, in either direction, and no connection ends or begins: as with a cable that
is out, requests wait for their answers. After `heal` what was under way arrives, as TCP would bring it.

The system tells which process is at the other end of a connection, which needs Linux: its port leads to its socket, and
the node's process has that socket open. A connection of a node to itself is never cut.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from penstock.testing.ports import LOOPBACK

CALL_SECONDS: Final = 30
Found = TypeVar("Found")


class Network:
    """`pid_of` tells a node's process, None while it does not run."""

    def __init__(self, pid_of: Callable[[int], int | None]) -> None:
        if sys.platform != "linux":
            raise RuntimeError("only on Linux can the network of a node be cut")
        self._pid_of = pid_of
        self._nodes: set[int] = set()
        self._cut: set[int] = set()
        self._links: set[_Link] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-network", daemon=True)
        self._thread.start()

    def open(self, node_id: int, port: int) -> int:
        """Starts a proxy in front of a node's port; returns its own port, which stays the same until `close`."""
        return self._call(self._open(node_id, port))

    def cut(self, node_id: int) -> None:
        """Nothing passes between this node and the others, or clients, from now on."""
        self._call(self._change(self._cut | {node_id}))

    def heal(self, node_id: int) -> None:
        """What this node and the others have sent to each other arrives."""
        self._call(self._change(self._cut - {node_id}))

    def close(self) -> None:
        if not self._loop.is_closed():
            self._call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_SECONDS)
            self._loop.close()

    def is_cut(self, link: _Link) -> bool:
        return link.source != link.target and (link.source in self._cut or link.target in self._cut)

    def owner(self, port: int, to_port: int) -> int | None:
        """The node whose process connected from `port` to `to_port`; None for a client."""
        inode = next((inode for own, peer, inode in _connections() if own == port and peer == to_port), None)
        if inode is None:
            return None
        pids = ((node_id, self._pid_of(node_id)) for node_id in self._nodes)
        return next((node_id for node_id, pid in pids if pid is not None and _has_open(pid, inode)), None)

    def forget(self, link: _Link) -> None:
        self._links.discard(link)

    def _call(self, work: Coroutine[Any, Any, Found]) -> Found:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    async def _open(self, node_id: int, port: int) -> int:
        self._nodes.add(node_id)

        def accepted() -> asyncio.Protocol:
            link = _Link(self, node_id, port)
            self._links.add(link)
            return link.near

        server = await self._loop.create_server(accepted, LOOPBACK, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _change(self, cut: set[int]) -> None:
        self._cut = cut
        for link in list(self._links):
            link.look()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.abort()
        await asyncio.sleep(0)


class _Link:
    """One connection through a proxy: `near` has connected, `far` is the node."""

    def __init__(self, network: Network, target: int, port: int) -> None:
        self.source: int | None = None
        self.target = target
        self.near = _End(self)
        self.far = _End(self)
        self.near.other, self.far.other = self.far, self.near
        self._network = network
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        transport.pause_reading()
        from_port, to_port = (transport.get_extra_info(name)[1] for name in ("peername", "sockname"))
        self.source = self._network.owner(from_port, to_port)
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.far, LOOPBACK, self._port)
        except OSError:
            self.abort()  # no node is there
        else:
            self.look()

    def look(self) -> None:
        """Read from each end whose bytes can go on to the other."""
        is_cut = self._network.is_cut(self)
        for end in (self.near, self.far):
            end.read_if(not is_cut and end.other.takes_more)

    def ended(self, end: _End) -> None:
        """One end has closed: the other closes when it has what was sent to it."""
        self._network.forget(self)
        if end.other.transport is not None:
            end.other.transport.close()

    def abort(self) -> None:
        self._network.forget(self)
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.abort()


class _End(asyncio.Protocol):
    other: _End

    def __init__(self, link: _Link) -> None:
        self.transport: asyncio.Transport | None = None
        self._link = link
        self._is_full = False

    @property
    def takes_more(self) -> bool:
        return self.transport is not None and not self._is_full

    def read_if(self, wanted: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self is self._link.near:
            self._link.begin(self.transport)
        else:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        assert self.other.transport is not None
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        self._is_full = True
        self._link.look()

    def resume_writing(self) -> None:
        self._is_full = False
        self._link.look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.ended(self)


def _connections() -> Iterator[tuple[int, int, str]]:
    """Of this machine: each connection's port, its peer's, and the inode of its socket."""
    with Path("/proc/net/tcp").open() as lines:
        next(lines)
        for line in lines:
            words = line.split()
            yield int(words[1].rpartition(":")[2], 16), int(words[2].rpartition(":")[2], 16), words[9]


def _has_open(pid: int, inode: str) -> bool:
    """False for a process that has just ended."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(_link_of(f"{folder}/{name}") == f"socket:[{inode}]" for name in os.listdir(folder))
    except OSError:
        return False


def _link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # it was closed meanwhile
