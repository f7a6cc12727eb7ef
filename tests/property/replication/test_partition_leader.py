"""Whatever happens in whatever order, a leader's high watermark and wake-ups are those of a naive twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest

from penstock.replication.committed import Committed
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.waits import Wait, Waits

ME, OTHERS = 1, (2, 3, 4)
KINDS = ("commit", "append", "keep", "give", "delete")
STEPS = 150


def event(random: Random) -> tuple[str, object]:
    """The next thing that happens."""
    some = tuple(one for one in OTHERS if random.random() < 0.5)
    more = tuple(one for one in OTHERS if random.random() < 0.5)
    drawn: Sequence[tuple[str, object]] = (
        ("append", (random.randint(1, 5), random.random() < 0.5)),
        ("keep", random.randint(0, 3)),
        ("fetch", (random.choice(OTHERS), random.randint(0, 8), random.randint(-1, 3))),
        ("fetch", (random.choice(OTHERS), random.randint(0, 1), random.randint(-1, 3))),
        ("propose", (ME, *some)),
        ("refuse", None),
        ("join", some),
        ("commit", ((ME, *more), (ME, *some), random.random() < 0.5)),
        ("configure", random.randint(1, 4)),
        ("begin_later", None),
        *[("wait", (random.choice(KINDS), random.randint(0, 4)))] * 4,
        ("leave", random.random()),
    )
    return random.choice(drawn)


class Twin:
    """A leader and what it should know, worked out anew after each event."""

    def __init__(self, end: int, high_watermark: int) -> None:
        self.end = self.kept = end
        self.ends = dict.fromkeys(OTHERS, -1)
        self.starts = dict.fromkeys(OTHERS, -1)
        self.replicas: tuple[int, ...] = (ME, *OTHERS)
        self.isr: tuple[int, ...] = (ME, *OTHERS)
        self.proposed: tuple[int, ...] = ()
        self.joining: tuple[int, ...] = ()
        self.needed = 1
        self.high_watermark = min(end, high_watermark)
        self.waits: dict[int, tuple[str, int]] = {}
        self.woken: set[str] = set()
        """All who wait for these look again, after this event."""
        self.advances = True
        """Whether this event may move the high watermark: then who waits for what was given looks at that."""
        self.deleted_to: int | None = None
        """What a follower has told in this event, for the first time."""
        self.called: list[int] = []
        self.epoch = 0
        self.handles: dict[int, tuple[Waits, Wait]] = {}
        self.leader = PartitionLeader(
            ME, 0, 0, self.replicas, self.isr, log_end_offset=end, committed=Committed(high_watermark)
        )

    def append(self, what: tuple[int, bool]) -> Sequence[Callable[[], None]]:
        count, is_kept = what
        self.end += count
        self.kept = self.end if is_kept else self.kept
        self.advances = is_kept
        return self.leader.on_appended(self.end, is_kept)

    def keep(self, behind: int) -> Sequence[Callable[[], None]]:
        self.kept = max(self.kept, self.end - behind)
        return self.leader.on_kept(self.kept)

    def fetch(self, at: tuple[int, int, int]) -> Sequence[Callable[[], None]]:
        replica, behind, start = at
        offset = max(0, self.end - behind)
        if replica in self.replicas:
            self.deleted_to = start if start != self.starts[replica] else None
            self.ends[replica], self.starts[replica] = offset, start
        self.advances = replica in self.replicas
        return self.leader.on_fetched(replica, offset, 1, 0, start)

    def propose(self, isr: tuple[int, ...]) -> None:
        if not self.proposed:
            self.proposed = isr
            self.leader.on_proposed(isr)
        self.advances = False

    def refuse(self, _: None) -> Sequence[Callable[[], None]]:
        self.proposed = ()
        return self.leader.on_refused()

    def join(self, replicas: tuple[int, ...]) -> Sequence[Callable[[], None]]:
        self.joining = replicas
        return self.leader.on_joining(self.joining)

    def commit(self, change: tuple[tuple[int, ...], tuple[int, ...], bool]) -> Sequence[Callable[[], None]]:
        more, isr, others_first = change
        self.replicas = tuple(sorted({*more, *isr}, reverse=others_first))
        self.isr, self.proposed = isr, ()
        self.joining = tuple(one for one in self.joining if one in self.replicas and one not in isr)
        for gone in set(OTHERS) - set(self.replicas):
            self.ends[gone] = self.starts[gone] = -1
        self.epoch += 1
        self.woken = {"append", "delete"}
        return self.leader.on_metadata(self.epoch, self.replicas, isr)

    def configure(self, needed: int) -> Sequence[Callable[[], None]]:
        self.needed = needed
        return self.leader.on_configured(needed)

    def begin_later(self, _: None) -> Sequence[Callable[[], None]]:
        self.woken, self.advances = {"append"}, False
        return self.leader.on_log_start_moved()

    def wait(self, how: tuple[str, int]) -> None:
        kind, ahead = how
        number, leader = len(self.handles), self.leader
        offset, waiter = self.reached(kind) + 1 + ahead, partial(self.called.append, number)
        if kind == "give":
            self.handles[number] = leader.when_given(offset, waiter)
        else:
            queues = leader.committed.waits, leader.appended, leader.kept.waits, None, leader.deletions
            queue = queues[KINDS.index(kind)]
            assert queue is not None
            self.handles[number] = queue, queue.add(offset, waiter)
        self.waits[number] = kind, offset
        self.advances = False

    def leave(self, which: float) -> None:
        if self.handles:
            number = int(which * len(self.handles))
            queue, handle = self.handles[number]
            queue.cancel(handle)
            self.waits.pop(number, None)
        self.advances = False

    @property
    def counted(self) -> list[int]:
        """Where those end that the high watermark waits for."""
        return [self.ends[replica] for replica in {*self.isr, *self.proposed, *self.joining} - {ME}]

    def reached(self, kind: str) -> int:
        match kind:
            case "commit":
                return self.high_watermark
            case "append":
                return self.end
            case "keep":
                return self.kept
            case "give":
                return min(self.counted, default=self.high_watermark)
        return -1 if self.deleted_to is None else self.deleted_to

    def check(self, due: Sequence[Callable[[], None]] | None) -> None:
        if len(self.isr) >= min(self.needed, len(self.replicas)):
            self.high_watermark = max(self.high_watermark, min([self.kept, *self.counted]))
        leader = self.leader
        assert leader.high_watermark == self.high_watermark
        assert leader.given_offset == self.reached("give")
        assert leader.is_preferred == (self.replicas[0] == ME)
        for waiter in due or ():
            waiter()
        expected = {
            number
            for number, (kind, offset) in self.waits.items()
            if (offset <= self.reached(kind) and (kind != "give" or self.advances)) or kind in self.woken
        }
        self.woken, self.advances, self.deleted_to = set(), True, None
        assert sorted(self.called) == sorted(expected)
        for number in expected:
            del self.waits[number]
        self.called.clear()
        given = [] if leader.given is None else [leader.given]
        queues = leader.appended, leader.committed.waits, leader.kept.waits, leader.deletions, *given
        assert sum(map(len, queues)) == len(self.waits)

    def end_epoch(self) -> None:
        for waiter in self.leader.on_epoch_over():
            waiter()
        assert sorted(self.called) == sorted(self.waits)


@pytest.mark.parametrize("seed", range(30))
def test_a_leader_is_as_its_twin(seed: int) -> None:
    random = Random(seed)
    twin = Twin(random.randint(0, 10), random.randint(0, 12))
    twin.check(None)
    for _ in range(STEPS):
        name, argument = event(random)
        twin.check(getattr(twin, name)(argument))
    twin.end_epoch()
