"""A driver on stores in memory and with peers that say what a test lets them say."""

import asyncio
from random import Random

from tests.unit.node.quorum.memory import HeldLog, MemoryState, Remembered, WrittenSnapshots
from tests.unit.node.quorum.scripted_peers import ScriptedPeers

from penstock.node.metrics.registry import Registry
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.protocol.errors import ErrorCode
from penstock.raft import requests as ask
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter

WALL_CLOCK_MS = 1_700_000_000_000
SETTINGS = RaftSettings(
    election_timeout_ms=1, election_backoff_max_ms=1, fetch_max_bytes=1000, fetch_snapshot_max_bytes=1000
)
VOTERS = [Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3)]


class Kit:
    """A driver with all that it stands on."""

    def __init__(self, voters: int = 1, log: HeldLog | None = None) -> None:
        self.log = log or HeldLog()
        self.snapshots = WrittenSnapshots()
        self.state = MemoryState()
        self.peers = ScriptedPeers()
        self.application = Remembered()
        self.failures: list[Exception] = []
        self.driver = self.make(voters)

    def make(self, voters: int = 1) -> QuorumDriver:
        self.metrics = Registry()
        driver = QuorumDriver(
            Member(VOTERS[0], Quorum.of(VOTERS[:voters], 0), SETTINGS),
            Stores(self.log, self.snapshots, self.state),
            self.peers,
            self.application,
            Clock(lambda: WALL_CLOCK_MS),
            Random(1),
        )
        driver.on_failure.listen(self.failures.append)
        driver.register(self.metrics)
        return driver

    async def lead(self) -> int:
        """Start the only voter and wait until it leads; the epoch."""
        await self.driver.start()
        await self.application.until(lambda: (1, self.driver.epoch) in self.application.leaders)
        return self.driver.epoch

    def again(self) -> "Kit":
        """A new process on what the old one left."""
        kit = Kit(log=HeldLog(self.log.contents()))
        kit.snapshots, kit.state = self.snapshots, self.state
        kit.driver = kit.make()
        return kit

    async def be_elected(self) -> int:
        """Start the first of three voters, and let the second vote for it; the epoch."""
        await self.driver.start()
        while not self.driver.is_leader(self.driver.epoch):
            await asyncio.sleep(0)
            for to, request in self.taken():
                if isinstance(request, ask.Vote):
                    answer = ask.VoteAnswer(ErrorCode.NONE, None, request.epoch, to == 2)
                    self.peers.answered(to, request, answer)
        await self.driver.threads.settle()  # it says so when its epoch is on the disk
        return self.driver.epoch

    def taken(self) -> list[tuple[int, ask.PeerRequest]]:
        sent, self.peers.sent = self.peers.sent, []
        return sent

    async def fetch(self, offset: int, epoch: int, *, voter: int = 2) -> ask.Answer:
        """A voter fetches from here: it says that it has all before the offset."""
        last_epoch = self.log.epoch_at(offset - 1) if offset else 0
        return await self.driver.request(ask.Fetch(epoch, ReplicaKey(voter), offset, last_epoch, -1, 0, 1 << 20))
