"""Start one server of the store, and stop it: take the directory, join the quorum, listen.

Its directory is one of Penstock's, with the replicated log in Kafka's format: `penstock dump-log` can read all of it.

| file                                       | what it is                                                    |
| ------------------------------------------ | ------------------------------------------------------------- |
| `meta.properties`                          | whose directory this is                                       |
| `__cluster_metadata-0/….log`               | the log, in segments                                          |
| `__cluster_metadata-0/….checkpoint`        | snapshots; one of no record names the first voters            |
| `__cluster_metadata-0/quorum-state`        | who led last, and for whom this server voted                  |

The log is named as Kafka's metadata log because Kafka's Fetch, in which servers pull from each other, knows no other.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Final
from uuid import UUID

from examples.raft_kv.addresses import ServerAddress
from examples.raft_kv.dispatch import StoreDispatcher
from examples.raft_kv.messages import MAX_FRAME_BYTES
from examples.raft_kv.options import LISTENER, RaftOptions, ServerOptions
from examples.raft_kv.peers import store_node
from examples.raft_kv.replica import Snapshots, StoreReplica
from examples.raft_kv.service import StoreService
from examples.raft_kv.snapshot import encode_snapshot
from examples.raft_kv.values import MemoryValues, SqliteFiles
from penstock.client.settings import ClientSettings
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.errors import LogDirectoryError
from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.disk import Disk
from penstock.node.environment.environment import Environment
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.peers import Peers, Place
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import QuorumStateError, StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.serving.connections import ConnectionLimits, Connections
from penstock.node.serving.server import BoundListener, Endpoint, Server
from penstock.protocol.errors import DecodeError, KafkaError
from penstock.protocol.uuids import random_uuid
from penstock.raft.log_name import METADATA_LOG
from penstock.raft.ports import SnapshotId
from penstock.raft.replica import InconsistentLogError
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter
from penstock.raft.voters import Endpoint as VoterEndpoint

logger = logging.getLogger(__name__)

CLUSTER_ID: Final = "raft-kv"
BOOTSTRAP: Final = SnapshotId(0, 0)


class ServerStartError(Exception):
    """The server cannot start; the text says why, and what to do."""


class RunningServer:
    """A server that serves."""

    def __init__(
        self,
        options: ServerOptions,
        directories: LogDirectories,
        quorum: QuorumDriver,
        replica: StoreReplica,
        parts: AsyncExitStack,
    ) -> None:
        self.options = options
        self.quorum = quorum
        self.replica = replica
        self._directories = directories
        self._parts = parts
        self._failed = asyncio.Event()
        quorum.on_failure(self._quorum_failed)

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Serve until somebody wants it to stop, or it cannot go on. Raises ServerStartError then."""
        ends = [asyncio.ensure_future(event.wait()) for event in (stopped, self._failed)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await self.stop()
        if self.quorum.failure is not None:
            raise ServerStartError(f"this server cannot go on: {self.quorum.failure}")

    async def stop(self) -> None:
        """Answer what is being asked, lay down the lead, write everything down."""
        try:
            await self._parts.aclose()
            if self.quorum.failure is None:
                self._directories.close()
        finally:
            self._directories.abandon()

    def _quorum_failed(self, error: Exception) -> None:
        self._failed.set()


async def start_server(options: ServerOptions, environment: Environment | None = None) -> RunningServer:
    """Start a server on the running event loop; it listens when this returns. Raises ServerStartError."""
    environment = environment or Environment()
    async with AsyncExitStack() as undo:
        try:
            listener = _bind(options.me, environment)
            undo.callback(listener.close)
            directory_id = _format(options, environment.disk, environment.random)
            directories = LogDirectories(
                [options.raft.data_dir],
                node_id=options.me.id,
                random=environment.random,
                cluster_id=CLUSTER_ID,
                disk=environment.disk,
            )
            undo.callback(directories.abandon)
            return await _start(options, environment, directories, directory_id, listener, undo)
        except (LogDirectoryError, OSError, KafkaError, DecodeError, QuorumStateError, InconsistentLogError) as error:
            raise ServerStartError(str(error)) from error


async def _start(
    options: ServerOptions,
    environment: Environment,
    directories: LogDirectories,
    directory_id: UUID,
    listener: BoundListener,
    undo: AsyncExitStack,
) -> RunningServer:
    in_files = options.raft.keeps_values_in == "sqlite"
    replica = StoreReplica(SqliteFiles(options.raft.data_dir) if in_files else MemoryValues)
    quorum = _quorum(options, environment, directories, directory_id, replica)
    parts = AsyncExitStack()
    undo.push_async_callback(parts.aclose)
    parts.callback(lambda: replica.store.close())
    await quorum.start()
    parts.push_async_callback(quorum.stop)
    snapshots = Snapshots(replica, quorum, options.raft, environment.now_ms)
    snapshots.start()
    parts.push_async_callback(snapshots.stop)
    dispatcher = StoreDispatcher(store_node(quorum, CLUSTER_ID), StoreService(replica, quorum, environment.now_ms))
    limits = ConnectionLimits(max_frame_bytes=MAX_FRAME_BYTES, max_idle_ms=-1)
    server = Server(Connections(dispatcher, limits, asyncio.get_running_loop()))
    parts.push_async_callback(server.stop)
    await server.listen([listener])
    undo.pop_all()
    return RunningServer(options, directories, quorum, replica, parts)


def _bind(me: ServerAddress, environment: Environment) -> BoundListener:
    try:
        return environment.bind(Endpoint(LISTENER, me.host, me.port))
    except OSError as error:
        raise ServerStartError(f"cannot listen on {me.address} ({error.strerror or error})") from error


def _quorum(
    options: ServerOptions,
    environment: Environment,
    directories: LogDirectories,
    directory_id: UUID,
    replica: StoreReplica,
) -> QuorumDriver:
    disk, timing = environment.disk, options.raft.quorum
    config = _log_config(options.raft)
    directories.open_all(lambda topic: config)
    log = directories.create(METADATA_LOG.topic, METADATA_LOG.partition, METADATA_LOG.topic_id, config)
    snapshots = StoredSnapshots(disk, log.directory)
    local = _voter(options.me, directory_id)
    settings = ClientSettings(
        client_id=f"raft-kv-{options.me.id}",
        request_timeout_ms=timing.request_timeout_ms,
        socket_connection_setup_timeout_ms=timing.request_timeout_ms,
        retry_backoff_ms=50,
        retry_backoff_max_ms=500,
        random=environment.random,
        now_ms=environment.now_ms,
    )
    return QuorumDriver(
        Member(local, Quorum((), DYNAMIC_VOTERS), timing),
        Stores(StoredLog(log, snapshots), snapshots, StateFile(disk, log.directory)),
        Peers(
            settings,
            Place(
                cluster_id=CLUSTER_ID,
                listener_name=LISTENER,
                listeners=local.endpoints,
                bootstrap=[server.address for server in options.servers],
            ),
        ),
        replica,
        Clock(environment.now_ms, environment.elapsed_s),
        environment.random,
    )


def _log_config(options: RaftOptions) -> LogConfig:
    """Only a snapshot may stand in for a record of this log: neither age nor size deletes anything."""
    return LogConfig(segment_bytes=options.max_segment_file_size, retention_ms=-1, cleanup_policy=frozenset())


# A new directory.


def _format(options: ServerOptions, disk: Disk, random: Random) -> UUID:
    """The id of the directory; a new one is given its own, and the names of the first voters if this is one of them."""
    path = options.raft.data_dir
    found = read_meta_properties(disk, path)
    if found is not None and found.directory_id is not None:
        return found.directory_id
    disk.make_directory(path, parents=True)
    disk.sync_directory(os.path.dirname(path) or ".")
    snapshots = StoredSnapshots(disk, f"{path}/{METADATA_LOG}")
    if options.is_first_voter:
        directory_id = _first_directory_id(options.servers, options.me)
        voters = [_voter(server, _first_directory_id(options.servers, server)) for server in options.servers]
        content = encode_snapshot([], Quorum.of(voters), epoch=0, last_timestamp_ms=0, now_ms=0)
        snapshots.write(BOOTSTRAP, content)
    else:
        directory_id = random_uuid(random)
    # Last: a directory without it is formatted once more.
    properties = MetaProperties(cluster_id=CLUSTER_ID, node_id=options.me.id, directory_id=directory_id)
    write_meta_properties(disk, path, properties)
    return directory_id


def _first_directory_id(servers: Sequence[ServerAddress], server: ServerAddress) -> UUID:
    """The first voters start apart from each other and yet must know the ids of each other's directories."""
    text = f"{','.join(sorted(map(str, servers)))} {server}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def _voter(server: ServerAddress, directory_id: UUID) -> Voter:
    return Voter(ReplicaKey(server.id, directory_id), (VoterEndpoint(LISTENER, server.host, server.port),))
