"""What the leader of one partition knows of its replicas, from it the high watermark, and who waits for what.

A record is committed when every replica of the maximal ISR has it: the ISR that is committed, and the one that this
leader has proposed and that may be committed at any time (KIP-497). The high watermark is the smallest log end offset
of these replicas, and where `flush.messages` wants this one's log flushed, not behind what is (`kept`). It never goes
back while this replica leads, and stands still while the ISR is smaller than `min.insync.replicas` (KIP-966).

| event           | cause                                             | moves the watermark       | may wake           |
| --------------- | ------------------------------------------------- | ------------------------- | ------------------ |
| `on_appended`   | the leader's own log grew                         | if it is alone in the ISR | followers, readers |
| `on_kept`       | the leader's own log was flushed                  | if the others have that   | readers            |
| `on_fetched`    | a follower asks for what is behind its log's end  | yes                       | readers            |
| `on_proposed`   | the leader asks the controller for another ISR    | no: more may count        | no waiter          |
| `on_refused`    | the controller refused that                       | yes                       | readers            |
| `on_joining`    | other followers keep up, or do no longer          | yes: fewer may count      | readers            |
| `on_metadata`   | a change of the partition was committed           | yes                       | followers, readers |
| `on_configured` | `min.insync.replicas` changed                     | yes                       | readers            |
| `on_epoch_over` | another replica leads, or this one in a new epoch | no                        | all waiters        |

Readers stand here for all that wait for the high watermark: consumers, acks=all, coordinators.
"""

from collections.abc import Callable, Sequence

from penstock.replication.committed import Committed, Kept
from penstock.replication.waits import NOBODY, Wait, Waiter, Waits

UNKNOWN = -1


class ReplicaState:
    """-1 stands for what the leader has not heard of in this epoch.

    `last_caught_up_ms` is the latest time at which the follower had all that the leader had then.
    """

    __slots__ = (
        "_end_offset_at_last_fetch",
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, last_caught_up_ms: int) -> None:
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.last_fetch_ms = UNKNOWN
        self.last_caught_up_ms = last_caught_up_ms
        self._end_offset_at_last_fetch = UNKNOWN

    def on_fetched(self, fetch_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: int) -> None:
        """A follower that always asks a little behind the end of a log that grows quickly counts as caught up: it has
        what there was when it last asked. Another life of its broker has yet to catch up.
        """
        if broker_epoch != self.broker_epoch != UNKNOWN:
            self.has_to_catch_up()
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 <= self._end_offset_at_last_fetch <= fetch_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_ms = now_ms
        self._end_offset_at_last_fetch = leader_end_offset

    def has_to_catch_up(self) -> None:
        self.last_caught_up_ms = self._end_offset_at_last_fetch = UNKNOWN


class PartitionLeader:
    """Its leader epoch began at `epoch_start_offset`.

    `committed` is what it knows as this replica, `kept` how much its own log keeps; `appended` are the waits for its
    log's end. Every method returns the
    waiters that the event wakes, and costs about a microsecond where none is due.
    """

    __slots__ = (
        "_counted",
        "_holds",
        "appended",
        "committed",
        "deletions",
        "epoch_start_offset",
        "followers",
        "given",
        "isr",
        "joining",
        "kept",
        "leader_epoch",
        "log_end_offset",
        "min_insync_replicas",
        "node_id",
        "partition_epoch",
        "proposed_isr",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        *,
        log_end_offset: int,
        committed: Committed,
        kept: Kept | None = None,
        min_insync_replicas: int = 1,
        now_ms: int = 0,
    ) -> None:
        """Replicas of the ISR count as caught up at `now_ms`, the others as never; `committed` has no waiters yet.
        Without `kept` it is the whole log.
        """
        assert not committed.waits
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = self.log_end_offset = log_end_offset
        self.committed = committed
        self.kept = Kept(log_end_offset) if kept is None else kept
        self.appended = Waits()
        self.deletions = Waits()
        """These wait for the logs of followers to begin at an offset; all look again when one of them does."""
        self.given: Waits | None = None
        """These wait for `given_offset`; None as long as nobody ever did."""
        self.followers: dict[int, ReplicaState] = {
            replica: ReplicaState(now_ms if replica in isr else UNKNOWN) for replica in replicas if replica != node_id
        }
        self.replicas: tuple[int, ...] = tuple(replicas)
        self.isr: tuple[int, ...] = tuple(isr)
        self.proposed_isr: tuple[int, ...] | None = None
        self.joining: tuple[int, ...] = ()
        """Followers about to come in sync: the high watermark waits for them, or it would stay ahead of them."""
        self.min_insync_replicas = min_insync_replicas
        committed.cut_to(log_end_offset)
        self._count()
        self._advance()

    @property
    def high_watermark(self) -> int:
        return self.committed.high_watermark

    @property
    def given_offset(self) -> int:
        """All others that are in sync, or may be at any time, have what is before it: another one of them may lead and
        nothing is cut, whatever this one's log keeps. It is committed only once this one keeps it, too. Where there is
        no other, nobody has more than what is committed.
        """
        return min((state.log_end_offset for state in self._counted), default=self.high_watermark)

    def when_given(self, offset: int, waiter: Waiter) -> tuple[Waits, Wait]:
        """As soon as `given_offset` has reached that."""
        if self.given is None:
            self.given = Waits()
        return self.given, self.given.add(offset, waiter)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Every replica that is in the ISR now or may be at any time."""
        return tuple(dict.fromkeys(self.isr + (self.proposed_isr or ())))

    @property
    def needed_replicas(self) -> int:
        """acks=all needs so many in sync: no more than there are, whatever the topic says."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_preferred(self) -> bool:
        """Whether it is the first of the replicas, which is to lead if it can."""
        return self.replicas[:1] == (self.node_id,)

    def waits_for(self, replica: int) -> bool:
        """Whether the high watermark does: such a replica is never held back."""
        return replica in self.isr or replica in self.joining or replica in (self.proposed_isr or ())

    # events

    def on_appended(self, log_end_offset: int, is_kept: bool = True) -> Sequence[Waiter]:
        """Unless it `is_kept`, a flush is under way (`on_kept`)."""
        self.log_end_offset = log_end_offset
        if not is_kept:
            return self.appended.take_due(log_end_offset)
        kept = self.kept
        kept.offset = log_end_offset
        due = self._advance()
        if log_end_offset < self.appended.next_offset and log_end_offset < kept.waits.next_offset:
            return due
        return [*self.appended.take_due(log_end_offset), *kept.waits.take_due(log_end_offset), *due]

    def on_kept(self, offset: int) -> Sequence[Waiter]:
        self.kept.offset = offset
        return [*self.kept.waits.take_due(offset), *self._advance()]

    def on_fetched(
        self, replica: int, fetch_offset: int, broker_epoch: int, now_ms: int, log_start_offset: int = UNKNOWN
    ) -> Sequence[Waiter]:
        """The follower asks for what is behind `fetch_offset`, which is not behind this log's end."""
        assert fetch_offset <= self.log_end_offset
        state = self.followers.get(replica)
        if state is None:  # a reassignment has taken it away
            return NOBODY
        state.on_fetched(fetch_offset, broker_epoch, self.log_end_offset, now_ms)
        if log_start_offset == state.log_start_offset:
            return self._advance()
        state.log_start_offset = log_start_offset
        return [*self.deletions.take_due(log_start_offset), *self._advance()]

    def on_proposed(self, isr: Sequence[int]) -> None:
        """The controller is asked for this ISR, which holds from now on as far as it asks for more."""
        assert self.proposed_isr is None
        assert self.node_id in isr
        self.proposed_isr = tuple(isr)
        self._count()

    def on_refused(self) -> Sequence[Waiter]:
        self.proposed_isr = None
        self._count()
        return self._advance()

    def on_joining(self, replicas: Sequence[int]) -> Sequence[Waiter]:
        """These followers keep up and may come into the ISR."""
        self.joining = tuple(replicas)
        self._count()
        return self._advance()

    def on_metadata(self, partition_epoch: int, replicas: Sequence[int], isr: Sequence[int]) -> Sequence[Waiter]:
        """No older proposal can be committed any more. A known change is passed over, and leaves a newer proposal."""
        if partition_epoch <= self.partition_epoch:
            return NOBODY
        self.partition_epoch = partition_epoch
        for replica in self.isr:
            if replica in self.followers and replica not in isr:
                self.followers[replica].has_to_catch_up()
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.proposed_isr = None
        self.joining = tuple(replica for replica in self.joining if replica in replicas and replica not in isr)
        self.followers = {
            replica: self.followers.get(replica) or ReplicaState(UNKNOWN)
            for replica in replicas
            if replica != self.node_id
        }
        self._count()
        return [*self.appended.take_all(), *self.deletions.take_all(), *self._advance()]

    def on_log_start_moved(self) -> Sequence[Waiter]:
        """Followers are to hear that the log begins later."""
        return self.appended.take_all()

    def low_watermark(self, log_start_offset: int, is_alive: Callable[[int], bool]) -> int:
        """Where the logs of all live replicas have begun at least; this one's begins at `log_start_offset`."""
        starts = [state.log_start_offset for replica, state in self.followers.items() if is_alive(replica)]
        return min([log_start_offset, *starts])

    def on_configured(self, min_insync_replicas: int) -> Sequence[Waiter]:
        self.min_insync_replicas = min_insync_replicas
        self._count()
        return self._advance()

    def on_epoch_over(self) -> Sequence[Waiter]:
        """All waiters look at what holds in the next epoch."""
        queues = self.appended, self.deletions, self.given, self.kept.waits, self.committed.waits
        return [waiter for waits in queues if waits is not None for waiter in waits.take_all()]

    # the high watermark

    def _count(self) -> None:
        """Note whose offsets count: that changes more seldom than the offsets do."""
        self._holds = len(self.isr) < self.needed_replicas
        # A replica of the ISR that was taken away counts as one that was not heard of yet.
        self._counted = tuple(
            self.followers.get(replica) or ReplicaState(UNKNOWN)
            for replica in dict.fromkeys(self.maximal_isr + self.joining)
            if replica != self.node_id
        )

    def _advance(self) -> Sequence[Waiter]:
        committed = self.high_watermark if self._holds else self.kept.offset
        for state in self._counted:
            if state.log_end_offset < committed:
                committed = state.log_end_offset
        advanced = self.committed.advance(committed)
        return advanced if self.given is None else [*self.given.take_due(self.given_offset), *advanced]
