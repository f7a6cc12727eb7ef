"""A cluster for tests: real sockets on free ports, data in a temporary directory, gone when the test is over."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.testing.cluster_node import ClusterNode
from penstock.testing.layout import Layout
from penstock.testing.network import Network
from penstock.testing.quorum_view import IN_THE_CLEAR, Way, active_controller, known_brokers, wait_until
from penstock.testing.secured.authorities import AuthorityError
from penstock.testing.secured.embedded import EmbeddedSecurity
from penstock.testing.secured.users import ADMIN

TEST_DEFAULTS: dict[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}
"""Where a cluster for tests differs from `penstock start`: any free port, and groups that form at once."""

START_SECONDS = 60
CONTROLLER_SECONDS = 30


class Cluster:
    """One node or several, started by `with` (or `async with`), or by `start` and `stop`.

        with Cluster(config={"num.partitions": "4"}) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

        with Cluster(nodes=3, process=True) as cluster:
            cluster.kill(cluster.active_controller)
            cluster.wait_for_controller()

    Each node runs in a thread of its own with its own event loop, so a test that blocks does not stop it. With
    `process=True` it is a process of its own, which `kill` ends as `kill -9` does. `start` returns when every
    broker serves and knows all others.

    Args:
        config: Broker keys by Kafka's names, on top of `TEST_DEFAULTS`, for all nodes.
        directory: Where the data goes. Without it, into a temporary directory that is deleted at the end.
        process: Whether each node is a process of its own.
        nodes: How many nodes, each of them broker and controller; their ids are 1, 2, 3 and so on.
        brokers, controllers: Instead of `nodes`: so many that are only brokers (ids from 1 on), and then so many that
            are only controllers.
        dynamic_voters: Whether controllers may become voters and cease to be while the cluster runs (KIP-853); else
            the configuration names the voters. A single node is its quorum alone either way.
        network: Whether nodes can be cut off (`cut`). All that they and clients say to each other then passes through
            this process. Only on Linux, with several nodes and `process=True`.
        secure: Whether clients come over TLS and log in, as `client_properties` says, and nodes know each other by
            certificates. There are the users `admin`, who may do everything, and `app`, who reads and writes topics.
            Needs the package cryptography: `pip install 'penstock[tls]'`.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | str | None = None,
        process: bool = False,
        nodes: int = 1,
        brokers: int | None = None,
        controllers: int | None = None,
        dynamic_voters: bool = False,
        network: bool = False,
        secure: bool = False,
    ) -> None:
        """Nothing runs yet. Raises ValueError for numbers of nodes that make no cluster, RuntimeError where the package
        is missing that makes certificates.
        """
        self._config = dict(config or {})
        layout = None
        if secure or nodes != 1 or brokers is not None or controllers is not None:
            layout = Layout.of(nodes, brokers, controllers, self._config)
        if network and (layout is None or not process):
            raise ValueError("network=True needs several nodes and process=True")
        self._network = Network(lambda node_id: self.node(node_id).pid) if network else None
        self._temporary = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-")
            directory = self._temporary.name
        self.directory = Path(directory)
        """Where the data is, unless `config` says otherwise with `log.dirs`."""
        self._secured = _secured(self.directory, layout) if secure and layout is not None else None
        self.nodes: tuple[ClusterNode, ...]
        """In the order of their ids."""
        if layout is None:
            self.nodes = (self._single_node(process),)
        else:
            self.nodes = layout.prepare(
                self.directory,
                TEST_DEFAULTS,
                self._config,
                process=process,
                dynamic_voters=dynamic_voters,
                network=self._network,
                secured=self._secured,
            )

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, `host:port` with commas between. They stay the same over `restart`."""
        addresses = [node.address for node in self.nodes if node.address is not None]
        if not addresses:
            raise RuntimeError("the cluster was not started: use it in a `with` statement, or call start()")
        return ",".join(addresses)

    @property
    def bootstrap_controllers(self) -> str:
        """The addresses of the controllers; empty for a single node, which has no listener for them."""
        return ",".join(node.controller_address for node in self.nodes if node.controller_address is not None)

    def client_properties(self, user: str = ADMIN) -> dict[str, str]:
        """What a client needs under Kafka's keys: where the cluster is, and in a secured one as whom to come.

        Raises KeyError for a user that there is not.
        """
        keys = {} if self._secured is None else self._secured.client_properties(user)
        return {"bootstrap.servers": self.bootstrap_servers, **keys}

    @property
    def pid(self) -> int | None:
        """The process of the first node; None where it is a thread of this one or does not run."""
        return self.nodes[0].pid

    def node(self, node_id: int | None) -> ClusterNode:
        """Raises KeyError."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)

    @property
    def active_controller(self) -> int | None:
        """The id of the node that leads the metadata quorum now, asked over the wire; None while there is no leader."""
        asked = [node for node in self.nodes if node.is_running and not node.is_paused]
        if self._secured is not None:  # controllers let nodes in alone, and brokers forward the question
            return active_controller((node.address for node in asked if node.address is not None), self._way)
        if len(self.nodes) == 1:
            return active_controller(node.address for node in asked if node.address is not None)
        # A broker that is no controller only forwards the question.
        return active_controller(node.controller_address for node in asked if node.controller_address is not None)

    @property
    def _way(self) -> Way:
        return IN_THE_CLEAR if self._secured is None else Way.of(self._secured.client_properties(ADMIN))

    def wait_for_controller(self, other_than: int | None = None) -> int:
        """Wait until a node leads the metadata quorum, another one than `other_than`; its id. Raises TimeoutError."""

        def look() -> int | None:
            active = self.active_controller
            return None if active == other_than else active

        return wait_until(look, CONTROLLER_SECONDS, "an active controller")

    def start(self) -> Self:
        """Start all nodes that do not run, and return when they answer and know each other.

        Raises:
            RuntimeError: One did not start; the text says why. None runs then.
        """
        waiting = [node for node in self.nodes if not node.is_running]
        if not waiting:
            raise RuntimeError("the cluster runs already")
        try:
            _together(waiting, ClusterNode.start)
            self._wait_until_acquainted()
        except BaseException:
            with suppress(RuntimeError):  # why it did not start says more than how the others ended
                self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops cleanly. The data stays until the `with` statement ends."""
        running = [node for node in self.nodes if node.is_running]
        brokers = [node for node in running if node.address is not None]
        _together(brokers, ClusterNode.stop)  # first: they tell a controller that they go
        _together([node for node in running if node not in brokers], ClusterNode.stop)

    def kill(self, node_id: int | None = None) -> None:
        """End a node, or all of them, at once, without any chance to clean up. Only with `process=True`."""
        if node_id is not None:
            self.node(node_id).kill()
            return
        for node in self.nodes:
            if node.is_running or len(self.nodes) == 1:
                node.kill()

    def pause(self, node_id: int) -> None:
        """Let a node do nothing at all from now on (SIGSTOP): for its peers it hangs. Only with `process=True`."""
        self.node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """The node goes on where it was (SIGCONT)."""
        self.node(node_id).resume()

    def cut(self, node_id: int) -> None:
        """Let nothing pass between a node and the others, or clients; it goes on alone. Only with `network=True`."""
        self._network_of(node_id).cut(node_id)

    def heal(self, node_id: int) -> None:
        self._network_of(node_id).heal(node_id)

    def restart(self) -> None:
        """Stop running nodes, and start all with the same data on the same ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        try:
            self.stop()
        finally:
            for node in self.nodes:
                node.give_back()
            if self._network is not None:
                self._network.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def __enter__(self) -> Self:
        """A cluster that does not start leaves nothing behind."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _network_of(self, node_id: int) -> Network:
        if self._network is None:
            raise RuntimeError("only with Cluster(network=True, process=True) a node can be cut off")
        self.node(node_id)  # KeyError for an unknown id
        return self._network

    def _single_node(self, process: bool) -> ClusterNode:
        directory = self.directory / "data"
        settings = {"log.dirs": str(directory)} | TEST_DEFAULTS | self._config
        node_id = settings.get("node.id", settings.get("broker.id", "1")).strip()
        return ClusterNode(
            int(node_id) if node_id.isdecimal() else -1, settings, directory=directory, process=process
        )  # the node itself refuses what is no id

    def _wait_until_acquainted(self) -> None:
        if len(self.nodes) == 1:
            return
        running, way = {node.id for node in self.nodes if node.address is not None}, self._way
        for node in self.nodes:
            if (address := node.address) is not None:
                wait_until(
                    lambda address=address: known_brokers(address, way) >= running or None,  # type: ignore[misc]
                    START_SECONDS,
                    f"node {node.id} knows all brokers",
                )


def _secured(directory: Path, layout: Layout) -> EmbeddedSecurity:
    try:
        return EmbeddedSecurity(directory, list(layout.roles))
    except AuthorityError as error:
        raise RuntimeError(str(error)) from None


def _together(nodes: Sequence[ClusterNode], act: Callable[[ClusterNode], None]) -> None:
    """In parallel, to the end; the first failure is raised."""
    if len(nodes) == 1:
        act(nodes[0])
    elif nodes:
        with ThreadPoolExecutor(len(nodes), "penstock-cluster") as threads:
            done = [threads.submit(act, node) for node in nodes]
        for result in done:
            result.result()
