"""A storage group whose only voter is this node."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.node.turns import until

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.group import StorageGroup
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter

CONFIG = LogConfig(segment_bytes=1_000, retention_ms=-1, cleanup_policy=frozenset())


class AtOnce(Executor):
    """A disk whose threads have done all at once."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:
            done.set_exception(error)
        return done


async def start_alone(group: StorageGroup, directories: LogDirectories) -> None:
    """Start it, its log in these directories, and let it lead."""
    log = directories.create("__storage_group", 0, UUID(int=1), CONFIG)
    snapshots = StoredSnapshots(Disk(), log.directory)
    driver = QuorumDriver(
        Member(
            Voter(ReplicaKey(1)),
            Quorum.of([Voter(ReplicaKey(1))], 0),
            RaftSettings(election_timeout_ms=1, fetch_timeout_ms=4, leases=True),
        ),
        Stores(StoredLog(log, snapshots), snapshots, StateFile(Disk(), log.directory), AtOnce()),
        NoPeers(),
        group,
        Clock(wall_clock_ms),
        Random(1),
    )
    await group.start(driver)
    await until(lambda: group.leads)
