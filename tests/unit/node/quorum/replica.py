"""A replica of a quorum with a listener on a real socket and files on a real disk.

It can be killed, and started again on what it left.
"""

import asyncio
import shutil
from pathlib import Path
from random import Random
from uuid import UUID

from tests.unit.node.quorum.listener import Listener
from tests.unit.node.quorum.memory import Remembered
from tests.unit.node.quorum.stores import Store

from penstock.client.settings import ClientSettings
from penstock.log.config import LogConfig
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.peers import Peers, Place
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import StateFile
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter

CLUSTER_ID = "cluster"
SETTINGS = RaftSettings(
    election_timeout_ms=300,
    election_backoff_max_ms=200,
    fetch_timeout_ms=1000,
    request_timeout_ms=1000,
    fetch_max_wait_ms=100,
    fetch_snapshot_max_bytes=1000,
)
SMALL = LogConfig(segment_bytes=2000, retention_ms=-1, cleanup_policy=frozenset())


class Replica:
    """Its listener has a port from the beginning; `start` makes a process of it, `kill` and `stop` end that."""

    def __init__(self, node_id: int, directory: Path, *, has_directory_id: bool = False) -> None:
        self.key = ReplicaKey(node_id, UUID(int=node_id if has_directory_id else 0))
        self.directory = directory / str(node_id)
        self.listener = Listener()
        self.listener.bind()
        self.application = Remembered()
        self.lives = 0
        self.store: Store
        self.driver: QuorumDriver

    @property
    def address(self) -> Address:
        return Address(self.listener.endpoint.host, self.listener.endpoint.port)

    @property
    def voter(self) -> Voter:
        return Voter(self.key, (Endpoint("CONTROLLER", self.address.host, self.address.port),))

    @property
    def leads(self) -> bool:
        """Whether its application was told so last."""
        return self.driver.is_running and self.application.leaders[-1:] == [(self.key.id, self.driver.epoch)]

    async def has(self, values: tuple[bytes, ...]) -> None:
        """Wait until it has applied these, in this order, whatever else there is between them."""
        await self.application.until(lambda: _has(self.application.values, values))

    async def knows_leader(self, node_id: int) -> None:
        """Wait until its application was told that this node leads."""
        await self.application.until(lambda: self.application.leaders[-1][0] == node_id)

    async def start(self, configured: Quorum, *bootstrap: Address) -> None:
        """A new process."""
        self.lives += 1
        self.application = Remembered()
        self.store = Store(str(self.directory), SMALL)
        settings = ClientSettings(
            request_timeout_ms=SETTINGS.request_timeout_ms,
            socket_connection_setup_timeout_ms=SETTINGS.request_timeout_ms,
            retry_backoff_ms=50,
            retry_backoff_max_ms=500,
        )
        self.driver = QuorumDriver(
            Member(self.voter, configured, SETTINGS),
            Stores(self.store.log, self.store.snapshots, StateFile(self.store.disk, self.store.directory)),
            Peers(settings, Place(cluster_id=CLUSTER_ID, listeners=self.voter.endpoints, bootstrap=bootstrap)),
            self.application,
            Clock(lambda: 1_700_000_000_000),
            Random(self.key.id * 100 + self.lives),
        )
        await self.driver.start()
        await self.listener.serve(self.driver, CLUSTER_ID)

    async def kill(self) -> None:
        """It ends in the middle of what it does, as far as one process can play that for another."""
        await self.listener.cut()
        self.driver._end(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "killed"))
        await self.driver.stop()
        self.store.partition.abandon()

    async def stop(self) -> None:
        await self.driver.stop()
        await self.listener.close()
        self.store.partition.close()

    async def write_snapshot(self) -> int:
        """Of all that it has applied; its size."""
        end_offset = self.driver.applied_offset
        chunks = self.application.snapshot(self.driver.quorum_at(end_offset))
        snapshot = await self.driver.snapshot(chunks, end_offset)
        return self.store.snapshots.size(snapshot) or 0

    def lose_disk(self) -> None:
        shutil.rmtree(self.directory)


class Replicas:
    """Several replicas, and what a client of theirs would do."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.all = replicas

    @property
    def running(self) -> list[Replica]:
        return [replica for replica in self.all if replica.driver.is_running]

    async def leader(self) -> Replica:
        """Who leads, and knows it."""
        async with asyncio.timeout(60):
            while True:
                for replica in self.running:
                    if replica.leads:
                        return replica
                await self.anything()

    async def anything(self) -> None:
        """Any application is told something."""
        waits = [asyncio.ensure_future(replica.application.next_call()) for replica in self.running]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def write(self, batch: bytearray) -> int:
        """Append until it is acknowledged; a batch may be there more than once then."""
        async with asyncio.timeout(60):
            while True:
                leader = await self.leader()
                try:
                    return await leader.driver.append(bytearray(batch), leader.driver.epoch)
                except KafkaError:
                    await asyncio.sleep(0)  # another leads by now, or will

    async def all_have(self, *values: bytes) -> None:
        """Wait until each has applied these, in this order, whatever else there is between them."""
        for replica in self.running:
            await replica.has(values)


def _has(found: list[bytes], values: tuple[bytes, ...]) -> bool:
    rest = iter(found)
    return all(value in rest for value in values)
