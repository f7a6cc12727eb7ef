"""Who comes into the ISR, who goes and who is read from, beside a plain model that remembers every fetch."""

from dataclasses import dataclass, field
from random import Random

import pytest

from penstock.replication.committed import Committed
from penstock.replication.isr import IsrProposal, Watch, grown_isr, keeps_up, proposal
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.read_replica import NO_REPLICA, nearest_replica

ME, OTHERS, STRANGER = 1, (2, 3, 4), 9
LAG_MS = 20


@dataclass
class Follower:
    """All that was heard of it in one life, since it last had to catch up."""

    caught_up_ms: int
    end: int = -1
    start: int = -1
    broker_epoch: int = -1
    fetches: list[tuple[int, int]] = field(default_factory=list)
    """Times, and where the leader's log ended."""

    def fetch(self, offset: int, start: int, broker_epoch: int, leader_end: int, now_ms: int) -> None:
        if self.broker_epoch not in (-1, broker_epoch):
            self.has_to_catch_up()
        for time_ms, end in [*self.fetches[-1:], (now_ms, leader_end)]:
            if offset >= end:
                self.caught_up_ms = max(self.caught_up_ms, time_ms)
        self.fetches.append((now_ms, leader_end))
        self.end, self.start, self.broker_epoch = offset, start, broker_epoch

    def has_to_catch_up(self) -> None:
        self.caught_up_ms = -1
        self.fetches.clear()


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = self.partition_epoch = 0
        self.begun_at = self.end = 10
        self.replicas: tuple[int, ...] = (ME, *OTHERS)
        self.isr: tuple[int, ...] = (ME, 2, 3)
        self.proposed: tuple[int, ...] | None = None
        self.followers = {one: Follower(0 if one in self.isr else -1) for one in OTHERS}
        self.leader = PartitionLeader(
            ME, 4, 0, self.replicas, self.isr, log_end_offset=self.end, committed=Committed(self.random.randrange(11))
        )
        self.watch, self.looked_at = Watch(self.leader, 0), (0, self.end)
        self.shrunk = self.grown = 0

    def step(self) -> None:
        self.now_ms += self.random.randrange(6)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.end += self.random.randrange(3)
                self.leader.on_appended(self.end)
            case 3 | 4 | 5 | 6 | 7:
                self.fetch(self.random.choice((*OTHERS, STRANGER)))
            case 8 if self.proposed is None:
                self.propose(tuple(sorted({ME, *self.random.sample(self.replicas, 2)})))
            case 9 if self.random.random() < 0.5:
                self.commit()
            case 10:
                self.proposed = None
                self.leader.on_refused()
            case 11:
                self.look()
        self.check()

    def fetch(self, replica: int) -> None:
        behind = self.random.choice((0, 0, 1, 2, 5))
        start, broker_epoch = self.random.randrange(3), 55 if self.random.random() < 0.95 else 56
        if replica in self.followers:
            follower = self.followers[replica]
            follower.fetch(max(self.end - behind, 0), start, broker_epoch, self.end, self.now_ms)
        self.leader.on_fetched(replica, max(self.end - behind, 0), broker_epoch, self.now_ms, start)

    def propose(self, isr: tuple[int, ...]) -> None:
        self.proposed = isr
        self.leader.on_proposed(isr)

    def commit(self) -> None:
        isr = self.proposed or tuple(sorted({ME, *self.random.sample(OTHERS, self.random.randrange(4))}))
        self.replicas = tuple(sorted({*isr, *self.random.sample(OTHERS, 2)}))
        for gone in [one for one in self.isr if one not in isr and one in self.followers]:
            self.followers[gone].has_to_catch_up()
        self.followers = {one: self.followers.get(one, Follower(-1)) for one in self.replicas if one != ME}
        self.isr, self.proposed = isr, None
        self.partition_epoch += 1
        self.leader.on_metadata(self.partition_epoch, self.replicas, isr)

    def look(self) -> None:
        since_ms, end = self.looked_at
        for one in self.isr:
            if one in self.followers and self.followers[one].end >= end:
                self.followers[one].caught_up_ms = max(self.followers[one].caught_up_ms, since_ms)
        self.looked_at = self.now_ms, self.end
        lagging = [
            one
            for one in self.isr
            if one in self.followers
            and self.followers[one].end < self.end
            and self.now_ms - self.followers[one].caught_up_ms > LAG_MS
        ]
        shrunk = None if not lagging or self.proposed else tuple(one for one in self.isr if one not in lagging)
        assert self.watch.shrunk_isr(self.leader, self.now_ms, LAG_MS) == shrunk
        self.shrunk += shrunk is not None

    def check(self) -> None:
        leader = self.leader
        assert {one: state.last_caught_up_ms for one, state in leader.followers.items()} == {
            one: follower.caught_up_ms for one, follower in self.followers.items()
        }
        for one in (*OTHERS, STRANGER):
            known = self.followers.get(one)
            is_out = known is not None and one not in self.isr
            has_all = known is not None and known.end >= max(leader.high_watermark, self.begun_at)
            grown = (*self.isr, one) if is_out and has_all and self.proposed is None else None
            assert grown_isr(leader, one) == grown
            self.grown += grown is not None
            has_had = known is not None and known.caught_up_ms >= max(self.now_ms - LAG_MS, 0)
            assert keeps_up(leader, one, self.now_ms, LAG_MS) is (is_out and has_had)
            assert leader.waits_for(one) is (one in {*self.isr, *(self.proposed or ())})
        ends = [self.followers[one].end >= self.end for one in self.isr if one in self.followers]
        assert Watch.is_over(leader) is all(ends)
        epochs = {one: follower.broker_epoch for one, follower in self.followers.items()} | {ME: 44}
        asked = (ME, *OTHERS)
        assert proposal(leader, asked, 44) == IsrProposal(
            4, self.partition_epoch, asked, tuple(epochs.get(one, -1) for one in asked)
        )
        self.check_nearest()

    def check_nearest(self) -> None:
        offset, near = self.random.randrange(self.end + 2), self.random.sample((ME, *OTHERS), 2)
        could = [
            (follower.end, follower.caught_up_ms, one)
            for one, follower in self.followers.items()
            if one in near and one in self.isr and follower.start <= offset <= follower.end
        ]
        wanted = max(could)[2] if could and ME not in near else NO_REPLICA
        assert nearest_replica(self.leader, offset, near.__contains__) == wanted
        starts = [follower.start for one, follower in self.followers.items() if one in near]
        assert self.leader.low_watermark(1, near.__contains__) == min([1, *starts])


@pytest.mark.parametrize("seed", range(8))
def test_who_is_in_sync_is_as_the_plain_model_says(seed: int) -> None:
    history = History(seed)
    for _ in range(500):
        history.step()
    assert history.shrunk
    assert history.grown
