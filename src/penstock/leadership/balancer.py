"""Leadership comes to those who should have it: one partition at a time in the whole cluster, the smallest first.

The first of a partition's replicas should lead it; Kafka calls it the preferred one. A partition whose leader changes
is away for a moment, for its clients and, if it is one of `__consumer_offsets`, for its groups; so only one is at a
time.

| state | what happens | what follows |
| --- | --- | --- |
| resting | the interval is over, and too much is led by others; or a client asks | balancing |
| balancing | the preferred replica of some partition does not lead it, is in sync and may lead | it is offered |
| | the same, and a replica of some partition catches up | it waits until none does |
| | there is no such partition, or a client has asked to stop | resting |
| it is offered | its leader hands over (`transfer`), or does not in time | a move is under way |
| | the partition has changed | balancing |
| a move is under way | both brokers know of it; or the partition has changed again, or is gone | balancing |
| | it takes longer than the time-out | the old leader leads again, if it may; resting |

Too much is led by others if for any broker more than `leader.imbalance.per.broker.percentage` of what it should lead is
so. A broker that has not taken over in time gets nothing more in that round, and none begins with it until it has
applied the move that it missed; then it is as good as any. A client that asks begins anew with all.

A replica that is not in sync catches up if its broker is in service and its disk is online. One that is out keeps
nothing waiting but what it should lead itself: nobody knows when it will be back.

A controller that takes over cannot know whether a move of the one before it is under way: it begins when all
brokers know what was decided before, or after the time-out. The image alone says whether a move was made: a decision
whose records could not be appended leaves nothing behind.

A storage group moves as a partition of `__storage_group`, and what is in it follows. Its voters elect: the
move is made when the taker has claimed it. Where its leader does not hand over in time it stays where it is, until the
next interval is over or a client asks.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol
from uuid import UUID

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.partition_index import Partitions, each
from penstock.metadata.topics import is_online
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value

AT_ONCE = 0


class BalanceSettings(Value):
    interval_ms: int | None = None
    """How often leadership is compared with what should be; None: only when a client asks."""
    least_percent: int = 10
    """How much of what a broker should lead may be led by others."""
    timeout_ms: int = 10_000
    handover_ms: int = 0
    """How long a leader has to hand over by itself before its partition is simply moved."""


class View(Protocol):
    @property
    def image(self) -> ClusterImage: ...

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool: ...

    def have_seen(self, offset: int, broker_ids: Iterable[int]) -> bool: ...


class Move(Value):
    """The new leader begins `leader_epoch`."""

    topic: str
    topic_id: UUID
    index: int
    leader_epoch: int
    giver: int
    taker: int
    is_back: bool = False
    """The taker of an earlier move did not take over: the old leader leads again."""

    def partition_in(self, image: ClusterImage) -> PartitionImage | None:
        """None if the move was not made, or the partition has changed since."""
        topic = image.topics_by_id.get(self.topic_id)
        found = None if topic is None else topic.partitions.get(self.index)
        is_so = found is not None and (found.leader, found.leader_epoch) == (self.taker, self.leader_epoch)
        return found if is_so else None


class _Offer(Value):
    """The leader may make the move itself until `deadline_ms`, by handing over."""

    move: Move
    deadline_ms: int

    def holds(self, image: ClusterImage) -> bool:
        """The partition is what it was, and the taker in sync."""
        topic = image.topics_by_id.get(self.move.topic_id)
        found = None if topic is None else topic.partitions.get(self.move.index)
        if found is None or self.move.taker not in found.isr:
            return False
        return (found.leader, found.leader_epoch) == (self.move.giver, self.move.leader_epoch - 1)


class _Wait(Value):
    """Lasts until these brokers have applied this offset, or the time is up; `move` is what they are to know of."""

    offset: int
    brokers: tuple[int, ...]
    deadline_ms: int
    move: Move | None = None

    def is_over(self, view: View) -> bool:
        is_gone = self.move is not None and self.move.partition_in(view.image) is None
        return is_gone or view.have_seen(self.offset, self.brokers)


class Balancer:
    """`now_ms` comes from a clock that never goes back, `offset` is what the next record will have."""

    def __init__(self, settings: BalanceSettings) -> None:
        self.is_balancing = False
        self.moved = 0
        """Counts moves that have ended since it was resting last."""
        self.late: dict[int, int] = {}
        """Brokers that have not taken over in time, each with the offset of the move that it had not applied."""
        self.kept: set[int] = set()
        """Storage groups that their leaders have not handed over in time."""
        self._settings = settings
        self._next_ms: int | None = None
        self._wait: _Wait | None = None
        self._offer: _Offer | None = None

    @property
    def move(self) -> Move | None:
        return None if self._wait is None else self._wait.move

    def begin(self, view: View, offset: int, now_ms: int) -> None:
        self._rest(now_ms)
        active = tuple(broker.node_id for broker in view.image.brokers.values() if broker.active)
        self._wait = _Wait(offset - 1, active, now_ms + self._settings.timeout_ms)

    def ask(self) -> None:
        self.late.clear()
        self.kept.clear()
        if not self.is_balancing:
            self.is_balancing, self.moved = True, 0

    def stop(self, now_ms: int) -> None:
        """No more moves until the next interval is over; one that is under way comes to its end."""
        self._rest(now_ms)

    def deadline_ms(self, view: View) -> int | None:
        """None if no time brings anything to do."""
        if self._wait is not None and (self.is_balancing or self.move is not None):
            return AT_ONCE if self._wait.is_over(view) else self._wait.deadline_ms
        if self.is_balancing:
            if waits_for_replicas(view.image):
                return None
            return self._offer.deadline_ms if self._offer is not None and self._offer.holds(view.image) else AT_ONCE
        return self._next_ms

    def act(self, view: View, offset: int, now_ms: int) -> Move | None:
        """The caller decides on the move now, with a record that has `offset`."""
        if not self.is_balancing:
            self._look(view, now_ms)
        if self._wait is not None:
            if not self._wait.is_over(view):
                if now_ms < self._wait.deadline_ms:
                    return None
                if self.move is not None:
                    return self._given_up(self.move, view, offset, now_ms)
            elif self.move is not None and self.move.partition_in(view.image) is not None:
                self.moved += not self.move.is_back
            self._wait = None
        return self._next(view, offset, now_ms) if self.is_balancing else None

    def _next(self, view: View, offset: int, now_ms: int) -> Move | None:
        if self._offer is not None and self._offer.move.partition_in(view.image) is not None:
            self._under_way(self._offer.move, offset - 1, now_ms)  # its storage group has another leader
            return self.act(view, offset, now_ms)
        if waits_for_replicas(view.image):
            return None
        found = self._smallest(view)
        if found is None:
            self._rest(now_ms)
            return None
        if self._is_offered(found, now_ms):
            return None
        if found.topic == STORAGE_GROUPS:
            self.kept.add(found.index)
            self._offer = None
            return self._next(view, offset, now_ms)
        return self._under_way(found, offset, now_ms)

    def offer_for(self, image: ClusterImage, broker_id: int) -> Move | None:
        """The move by which this broker is to hand over, if it is its turn."""
        if not self.is_balancing or self._wait is not None or self._offer is None or waits_for_replicas(image):
            return None
        return self._offer.move if self._offer.move.giver == broker_id else None

    def take_up(self, move: Move, offset: int, now_ms: int) -> None:
        """The broker has handed over: the caller decides on the move now, with a record that has `offset`."""
        self._under_way(move, offset, now_ms)

    def _is_offered(self, move: Move, now_ms: int) -> bool:
        within_ms = self._settings.timeout_ms if move.topic == STORAGE_GROUPS else self._settings.handover_ms
        if not within_ms:
            return False
        if self._offer is None or self._offer.move != move:
            self._offer = _Offer(move, now_ms + within_ms)
        return now_ms < self._offer.deadline_ms

    def _look(self, view: View, now_ms: int) -> None:
        if self._next_ms is not None and now_ms >= self._next_ms:
            self._rest(now_ms)
            if is_uneven(view.image, self._settings.least_percent):
                self.late = {one: missed for one, missed in self.late.items() if not view.have_seen(missed, (one,))}
                self.kept.clear()
                self.is_balancing, self.moved = True, 0

    def _rest(self, now_ms: int) -> None:
        interval_ms, self._offer = self._settings.interval_ms, None
        self.is_balancing, self._next_ms = False, None if interval_ms is None else now_ms + interval_ms

    def _smallest(self, view: View) -> Move | None:
        image = view.image
        for name in sorted(image.index.moved):
            topic = image.topics[name]
            for _, index in each({name: image.index.moved[name]}):
                partition = topic.partitions[index]
                taker = partition.replicas[0]
                if name == STORAGE_GROUPS and index in self.kept:
                    continue
                if taker in partition.isr and view.may_lead(partition, taker) and taker not in self.late:
                    epoch = partition.leader_epoch + 1
                    return Move(name, topic.topic_id, index, epoch, partition.leader, taker)
        return None

    def _under_way(self, move: Move, offset: int, now_ms: int) -> Move:
        self._offer = None
        self._wait = _Wait(offset, (move.giver, move.taker), now_ms + self._settings.timeout_ms, move)
        return move

    def _given_up(self, move: Move, view: View, offset: int, now_ms: int) -> Move | None:
        """The time is up. The taker lives, or it would be fenced by now: the giver is to lead again."""
        wait, self._wait = self._wait, None
        assert wait is not None
        self._rest(now_ms)
        partition = move.partition_in(view.image)
        assert partition is not None, "a move that does not hold is over"
        if move.is_back or view.have_seen(wait.offset, (move.taker,)):
            return None
        self.late[move.taker] = wait.offset
        if move.topic == STORAGE_GROUPS or move.giver not in partition.isr or not view.may_lead(partition, move.giver):
            return None
        back = move.replace(leader_epoch=move.leader_epoch + 1, giver=move.taker, taker=move.giver, is_back=True)
        return self._under_way(back, offset, now_ms)


def waits_for_replicas(image: ClusterImage) -> bool:
    """Nothing may move while a replica catches up, perhaps because its partition is being reassigned."""
    return any(True for _ in _catching_up(image))


def count_catching_up(image: ClusterImage) -> int:
    """Partitions with such a replica."""
    found: Partitions = {}
    for partitions in _catching_up(image):
        for topic, bits in partitions.items():
            found[topic] = found.get(topic, 0) | bits
    return sum(bits.bit_count() for bits in found.values())


def _catching_up(image: ClusterImage) -> Iterator[Partitions]:
    for (broker_id, directory), partitions in image.index.behind.items():
        broker = image.brokers.get(broker_id)
        if broker is not None and broker.active and is_online(directory, broker.directories):
            yield partitions


def is_uneven(image: ClusterImage, least_percent: int) -> bool:
    """Whether others lead more than `least_percent` of what some broker should lead."""
    moved = image.index.moved
    for broker_id in image.index.preferred_brokers() if moved else ():
        preferred = image.index.preferred(broker_id)
        away = sum((bits & preferred.get(topic, 0)).bit_count() for topic, bits in moved.items())
        if away and away * 100 > least_percent * sum(bits.bit_count() for bits in preferred.values()):
            return True
    return False
