"""Servers of the key-value example, each a process of its own, started as people start them."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.replicated import admin
from penstock.replicated.addresses import ServerAddress
from penstock.testing.ports import LOOPBACK, ReservedPort

LIMIT_S = 180
"""No test takes so long unless something hangs."""
ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


async def run(*arguments: str) -> tuple[int, str]:
    """`python -m …`, and what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, cwd=ROOT, env=ENVIRONMENT, stdout=PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


class KvServer:
    """One of them; it keeps its address and its directory when it is stopped."""

    def __init__(self, number: int, directory: Path, options: Sequence[str]) -> None:
        self._port = ReservedPort()
        self.me = ServerAddress(LOOPBACK, self._port.port, number)
        self.data = directory / f"server{number}"
        self.log = self.data / "__cluster_metadata-0"
        self._options = options
        self._process: Process | None = None

    async def start(self, servers: Sequence[ServerAddress]) -> None:
        """Returns when it listens."""
        self._port.make_way()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "examples.raft_kv", "server", ",".join(map(str, servers)), str(self.me)),
            *("--data-dir", str(self.data), *self._options),
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        assert line == f"server {self.me} listens; its data is in {self.data}\n"

    async def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        await self._ended()

    async def stop(self) -> None:
        """As people stop it."""
        self.signal(signal.SIGTERM)
        assert await self._ended() == 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        assert self._process is not None
        self._process.send_signal(number)

    async def _ended(self) -> int:
        assert self._process is not None
        code = await self._process.wait()
        self._process = None
        return code

    async def close(self) -> None:
        """Nothing is left of it but its directory."""
        if self._process is not None:
            await self.kill()
        self._port.release()


class KvCluster:
    """Three of them, and what may be added."""

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        self._directory = directory
        self._options = options
        self.servers = {number: KvServer(number, directory, options) for number in (1, 2, 3)}
        self.first = [server.me for server in self.servers.values()]

    @property
    def text(self) -> str:
        """All servers, as the command line wants them."""
        return ",".join(str(server.me) for server in self.servers.values())

    async def start(self, *numbers: int) -> None:
        """Start these servers."""
        await asyncio.gather(*(self.servers[number].start(self.first) for number in numbers))

    def new_server(self, number: int) -> KvServer:
        """One more, which is in nobody's list."""
        self.servers[number] = KvServer(number, self._directory, self._options)
        return self.servers[number]

    async def leader(self) -> KvServer:
        """The server that leads now."""
        return self.servers[(await admin.describe([server.address for server in self.first])).leader_id]


@asynccontextmanager
async def kv_cluster(directory: Path, *options: str) -> AsyncIterator[KvCluster]:
    """Three servers that run."""
    cluster = KvCluster(directory, options)
    try:
        async with asyncio.timeout(LIMIT_S):
            await cluster.start(1, 2, 3)
            yield cluster
    finally:
        for server in cluster.servers.values():
            await server.close()
