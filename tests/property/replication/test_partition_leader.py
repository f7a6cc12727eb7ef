"""Whatever happens in whatever order, a leader's high watermark and wake-ups are those of a naive twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from penstock.replication.committed import Committed
from penstock.replication.partition_leader import PartitionLeader

ME, OTHERS = 1, (2, 3, 4)
replica_sets = st.sets(st.sampled_from(OTHERS)).map(lambda others: (ME, *sorted(others)))
events = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("fetch"), st.tuples(st.sampled_from(OTHERS), st.integers(0, 8))),
    st.tuples(st.just("propose"), replica_sets),
    st.tuples(st.just("refuse"), st.none()),
    st.tuples(st.just("commit"), st.tuples(replica_sets, replica_sets)),
    st.tuples(st.just("configure"), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.tuples(st.booleans(), st.integers(0, 12))),
    st.tuples(st.just("leave"), st.integers(0, 5)),
)


class Twin:
    """A leader and what it should know, worked out anew after each event."""

    def __init__(self, end: int, high_watermark: int) -> None:
        self.end = end
        self.ends = dict.fromkeys(OTHERS, -1)
        self.replicas: tuple[int, ...] = (ME, *OTHERS)
        self.isr: tuple[int, ...] = (ME, *OTHERS)
        self.proposed: tuple[int, ...] = ()
        self.needed = 1
        self.high_watermark = min(end, high_watermark)
        self.waits: dict[int, tuple[bool, int]] = {}
        self.is_news_for_followers = False
        self.called: list[int] = []
        self.epoch = 0
        self.handles: dict[int, tuple[bool, tuple[int, int, Callable[[], None]]]] = {}
        self.leader = PartitionLeader(
            ME, 0, 0, self.replicas, self.isr, log_end_offset=end, committed=Committed(high_watermark)
        )

    def append(self, count: int) -> Sequence[Callable[[], None]]:
        self.end += count
        return self.leader.on_appended(self.end)

    def fetch(self, at: tuple[int, int]) -> Sequence[Callable[[], None]]:
        replica, behind = at
        offset = max(0, self.end - behind)
        if replica in self.replicas:
            self.ends[replica] = offset
        return self.leader.on_fetched(replica, offset, 1, 0)

    def propose(self, isr: tuple[int, ...]) -> None:
        if not self.proposed:
            self.proposed = isr
            self.leader.on_proposed(isr)

    def refuse(self, _: None) -> Sequence[Callable[[], None]]:
        self.proposed = ()
        return self.leader.on_refused()

    def commit(self, change: tuple[tuple[int, ...], tuple[int, ...]]) -> Sequence[Callable[[], None]]:
        more, isr = change
        self.replicas = tuple(sorted({*more, *isr}))
        self.isr, self.proposed = isr, ()
        for gone in set(OTHERS) - set(self.replicas):
            self.ends[gone] = -1
        self.epoch += 1
        self.is_news_for_followers = True
        return self.leader.on_metadata(self.epoch, self.replicas, isr)

    def configure(self, needed: int) -> Sequence[Callable[[], None]]:
        self.needed = needed
        return self.leader.on_configured(needed)

    def wait(self, how: tuple[bool, int]) -> None:
        for_commit, ahead = how
        number, offset = len(self.handles), (self.high_watermark if for_commit else self.end) + 1 + ahead
        waits = self.leader.committed.waits if for_commit else self.leader.appended
        self.handles[number] = for_commit, waits.add(offset, partial(self.called.append, number))
        self.waits[number] = for_commit, offset

    def leave(self, number: int) -> None:
        if number in self.handles:
            for_commit, handle = self.handles[number]
            (self.leader.committed.waits if for_commit else self.leader.appended).cancel(handle)
            self.waits.pop(number, None)

    def check(self, due: Sequence[Callable[[], None]] | None) -> None:
        maximal = {*self.isr, *self.proposed} - {ME}
        committed = min([self.end, *(self.ends[replica] for replica in maximal)])
        if len(self.isr) >= min(self.needed, len(self.replicas)):
            self.high_watermark = max(self.high_watermark, committed)
        assert self.leader.high_watermark == self.high_watermark
        for waiter in due or ():
            waiter()
        expected = {
            number
            for number, (for_commit, offset) in self.waits.items()
            if offset <= (self.high_watermark if for_commit else self.end)
            or (self.is_news_for_followers and not for_commit)
        }
        self.is_news_for_followers = False
        assert sorted(self.called) == sorted(expected)
        for number in expected:
            del self.waits[number]
        self.called.clear()
        assert len(self.leader.appended) + len(self.leader.committed.waits) == len(self.waits)


@given(st.integers(0, 10), st.integers(0, 12), st.lists(events, max_size=60))
def test_a_leader_is_as_its_twin(end: int, high_watermark: int, schedule: list[tuple[str, object]]) -> None:
    twin = Twin(end, high_watermark)
    twin.check(None)
    for event, argument in schedule:
        twin.check(getattr(twin, event)(argument))
