"""A cluster for tests: real sockets on free ports, data in a temporary directory, gone when the test is over."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from penstock.testing.process_node import ProcessNode
    from penstock.testing.thread_node import ThreadNode

TEST_DEFAULTS: dict[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}
"""Where a cluster for tests differs from `penstock start`: any free port, and groups that form at once."""


class Cluster:
    """One node, started by `with` (or `async with`), or by `start` and `stop`.

        with Cluster(config={"num.partitions": "4"}) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    The node runs in a thread of its own with its own event loop, so a test that blocks does not stop it. With
    `process=True` it is a process of its own, which `kill` can end as a power cut would.

    Args:
        config: Broker keys by Kafka's names, on top of `TEST_DEFAULTS`.
        directory: Where the data goes. Without it, into a temporary directory that is deleted at the end.
        process: Whether the node is a process of its own.
    """

    def __init__(
        self, *, config: Mapping[str, str] | None = None, directory: Path | str | None = None, process: bool = False
    ) -> None:
        """Prepare a cluster; nothing runs yet."""
        self._config = TEST_DEFAULTS | dict(config or {})
        self._temporary = None if directory is not None else tempfile.TemporaryDirectory(prefix="penstock-")
        self._directory = Path(directory if directory is not None else self._made_directory())
        self._process = process
        self._node: ThreadNode | ProcessNode | None = None
        self._address: str | None = None

    @property
    def directory(self) -> Path:
        """Where the data is, unless `config` says otherwise with `log.dirs`."""
        return self._directory

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`. It stays the same over `restart`."""
        if self._address is None:
            raise RuntimeError("the cluster was not started: use it in a `with` statement, or call start()")
        return self._address

    @property
    def pid(self) -> int | None:
        """The process of the node; None where it is a thread of this one or does not run."""
        from penstock.testing.process_node import ProcessNode

        return self._node.pid if isinstance(self._node, ProcessNode) else None

    def start(self) -> Self:
        """Start the node and return when it answers.

        Raises:
            RuntimeError: It did not start; the text says why.
        """
        if self._node is not None:
            raise RuntimeError("the cluster runs already")
        settings = {"log.dirs": str(self._directory / "data")} | self._config
        if self._address is not None and settings["listeners"].endswith(":0"):
            settings["listeners"] = settings["listeners"].rpartition(":")[0] + ":" + self._address.rpartition(":")[2]
        self._node = self._started(settings)
        self._address = self._node.address
        return self

    def stop(self) -> None:
        """Stop the node cleanly. What it has stored stays until the `with` statement ends."""
        if self._node is not None:
            self._node.stop()
            self._node = None

    def kill(self) -> None:
        """End the node at once, without any chance to clean up. Only with `process=True`."""
        from penstock.testing.process_node import ProcessNode

        if not isinstance(self._node, ProcessNode):
            raise RuntimeError("only a process can be killed: use Cluster(process=True), and start it first")
        self._node.kill()
        self._node = None

    def restart(self) -> None:
        """Stop the node, if it runs, and start it again with the same data on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the node and delete its temporary directory."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        """Start."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop and clean up."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start without blocking the event loop."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop and clean up without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def _made_directory(self) -> str:
        assert self._temporary is not None
        return self._temporary.name

    def _started(self, settings: dict[str, str]) -> ThreadNode | ProcessNode:
        if self._process:
            from penstock.testing.process_node import ProcessNode

            return ProcessNode(settings)
        from penstock.testing.thread_node import ThreadNode

        return ThreadNode(settings)
