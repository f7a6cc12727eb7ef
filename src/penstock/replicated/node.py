"""A node that replicates a machine: it takes its directory, joins the quorum, listens; it proposes, reads and stops."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from penstock.client.settings import ClientSettings
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import LogDirectoryError
from penstock.node.environment.environment import Environment
from penstock.node.environment.remover import Remover
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.peers import Peers, Place
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import QuorumStateError, StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.serving.connections import ConnectionLimits, Connections
from penstock.node.serving.dispatch import Dispatcher
from penstock.node.serving.server import BoundListener, Endpoint, Server
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.records import Record
from penstock.raft.log_name import METADATA_LOG
from penstock.raft.replica import InconsistentLogError
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.directory import format_directory, voter_of
from penstock.replicated.errors import NodeError
from penstock.replicated.machine import Result, StateMachine
from penstock.replicated.options import LISTENER, NodeOptions
from penstock.replicated.peers import QuorumPeer, quorum_peer
from penstock.replicated.proposals import Proposals
from penstock.replicated.replica import Replica, Snapshots

MachineT = TypeVar("MachineT", bound=StateMachine[Any])
Machine_co = TypeVar("Machine_co", bound=StateMachine[Any], covariant=True)

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024


class ReplicatedNode(Generic[Machine_co]):
    """A node that runs; `start_node` starts one."""

    def __init__(
        self,
        options: NodeOptions,
        directories: LogDirectories,
        quorum: QuorumDriver,
        replica: Replica[Machine_co],
        environment: Environment,
    ) -> None:
        self.options = options
        self.quorum = quorum
        self.parts = AsyncExitStack()
        """What ends with the node, the last first."""
        self._replica = replica
        self._directories = directories
        self._now_ms = environment.now_ms
        self._proposals = Proposals(quorum, replica, options.max_entry_bytes, environment.now_ms)
        self._failed = asyncio.Event()
        quorum.on_failure.listen(self._quorum_failed)

    @property
    def machine(self) -> Machine_co:
        """As far as this node has applied the log; another object after a snapshot was loaded: do not keep it."""
        return self._replica.machine

    @property
    def applied_end_offset(self) -> int:
        """All entries before this one are applied."""
        return self._replica.end_offset

    @property
    def leader(self) -> ServerAddress | None:
        """Who leads, as far as this node knows."""
        return self._proposals.leader

    async def propose(
        self: "ReplicatedNode[StateMachine[Result]]",
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Result:
        """What the machine's `apply` returned here, when a majority has the entry on disk.

        Raises NotLeaderError and KafkaError if the entry was not proposed, OutcomeUnknownError if it may be applied.
        """
        entry = Record(timestamp_ms=self._now_ms(), key=key, value=value, headers=list(headers))
        result: Result = await self._proposals.propose(entry)
        return result

    async def read(self) -> Machine_co:
        """The machine with all that was answered before the call: ask it before the next `await`.

        Raises NotLeaderError.
        """
        await self._proposals.read()
        return self.machine

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set, then stop. Raises NodeError if the node cannot go on."""
        ends = [asyncio.ensure_future(event.wait()) for event in (stopped, self._failed)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await self.stop()
        if self.quorum.failure is not None:
            raise NodeError(f"this server cannot go on: {self.quorum.failure}")

    async def stop(self) -> None:
        """Answer what is being asked, lay down the lead, write everything down."""
        try:
            await self.parts.aclose()
            if self.quorum.failure is None:
                self._directories.close()
        finally:
            self._directories.abandon()

    def _quorum_failed(self, error: Exception) -> None:
        self._failed.set()


def serve_peers(peer: QuorumPeer, node: ReplicatedNode[Any]) -> Dispatcher:
    """What arrives at a node's port is of the quorum alone."""
    return Dispatcher(peer)


async def start_node(
    options: NodeOptions,
    make_machine: Callable[[], MachineT],
    environment: Environment | None = None,
    dispatcher: Callable[[QuorumPeer, ReplicatedNode[MachineT]], Dispatcher] = serve_peers,
) -> ReplicatedNode[MachineT]:
    """Start a node on the running event loop; it listens when this returns. Raises NodeError.

    `make_machine` makes an empty one. `dispatcher` answers what arrives at the node's port: a program's own requests
    may share it with those of the quorum.
    """
    environment = environment or Environment()
    async with AsyncExitStack() as undo:
        try:
            listener = _bind(options.me, environment)
            undo.callback(listener.close)
            directory_id = format_directory(options, environment.disk, environment.random)
            directories = LogDirectories(
                [options.directory],
                node_id=options.me.id,
                random=environment.random,
                cluster_id=options.cluster_id,
                disk=environment.disk,
            )
            undo.callback(directories.abandon)
            replica = Replica(make_machine)
            quorum = _quorum(options, environment, directories, directory_id, replica)
            node = ReplicatedNode(options, directories, quorum, replica, environment)
            undo.push_async_callback(node.parts.aclose)
            remover = Remover(directories, environment.now_ms)
            remover.start()
            node.parts.push_async_callback(remover.stop)
            await _start(node, replica, environment)
            server = _server(dispatcher(quorum_peer(quorum, options.cluster_id), node))
            node.parts.push_async_callback(server.stop)
            await server.listen([listener])
            undo.pop_all()
            return node
        except (LogDirectoryError, OSError, KafkaError, DecodeError, QuorumStateError, InconsistentLogError) as error:
            raise NodeError(str(error)) from error


async def _start(node: ReplicatedNode[Any], replica: Replica[Any], environment: Environment) -> None:
    node.parts.callback(lambda: replica.machine.close())
    await node.quorum.start()
    node.parts.push_async_callback(node.quorum.stop)
    snapshots = Snapshots(replica, node.quorum, node.options, environment.now_ms)
    snapshots.start()
    node.parts.push_async_callback(snapshots.stop)


def _server(dispatcher: Dispatcher) -> Server:
    limits = ConnectionLimits(max_frame_bytes=MAX_FRAME_BYTES, max_idle_ms=-1)
    return Server(Connections(dispatcher, limits, asyncio.get_running_loop()))


def _bind(me: ServerAddress, environment: Environment) -> BoundListener:
    try:
        return environment.bind(Endpoint(LISTENER, me.host, me.port))
    except OSError as error:
        raise NodeError(f"cannot listen on {me.address} ({error.strerror or error})") from error


def _quorum(
    options: NodeOptions,
    environment: Environment,
    directories: LogDirectories,
    directory_id: UUID,
    replica: Replica[Any],
) -> QuorumDriver:
    disk, timing = environment.disk, options.quorum
    config = _log_config(options)
    directories.open_all(lambda topic: config)
    directories.begin()
    log = directories.create(METADATA_LOG.topic, METADATA_LOG.partition, METADATA_LOG.topic_id, config)
    snapshots = StoredSnapshots(disk, log.directory)
    local = voter_of(options.me, directory_id)
    settings = ClientSettings(
        client_id=f"{options.cluster_id}-{options.me.id}",
        request_timeout_ms=timing.request_timeout_ms,
        socket_connection_setup_timeout_ms=timing.request_timeout_ms,
        retry_backoff_ms=50,
        retry_backoff_max_ms=500,
        random=environment.random,
        now_ms=environment.now_ms,
    )
    return QuorumDriver(
        Member(local, Quorum((), DYNAMIC_VOTERS), timing),
        Stores(StoredLog(log, snapshots), snapshots, StateFile(disk, log.directory), directories.threads_of(log)),
        Peers(
            settings,
            Place(
                cluster_id=options.cluster_id,
                listener_name=LISTENER,
                listeners=local.endpoints,
                bootstrap=[server.address for server in options.servers],
            ),
        ),
        replica,
        Clock(environment.now_ms, environment.elapsed_s),
        environment.random,
    )


def _log_config(options: NodeOptions) -> LogConfig:
    """Only a snapshot may stand in for a record of this log: neither age nor size deletes anything."""
    return LogConfig(segment_bytes=options.max_segment_file_size, retention_ms=-1, cleanup_policy=frozenset())
