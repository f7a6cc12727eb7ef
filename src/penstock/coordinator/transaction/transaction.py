"""One transactional id: its producer and its present transaction, and the steps from one state to the next.

| from                      | to                    | when                                                           |
| ------------------------- | --------------------- | -------------------------------------------------------------- |
| Empty, Complete…          | Empty                 | a producer begins (InitProducerId): its epoch is raised        |
| Empty, Complete…, Ongoing | Ongoing               | partitions are added                                           |
| Ongoing                   | Ongoing               | the next producer keeps what was prepared (KIP-939)            |
| Ongoing                   | PrepareCommit         | EndTxn; from here on nothing but the markers is left to do     |
| Ongoing                   | PrepareAbort          | EndTxn; its time is over, or another producer begins           |
| Empty, Complete…          | PrepareAbort          | EndTxn of a producer that cannot know (version 2)              |
| PrepareCommit             | CompleteCommit        | every partition has its marker                                 |
| PrepareAbort              | CompleteAbort         | likewise                                                       |

Kafka's Dead and PrepareEpochFence are states of its memory, which are never written: an id that goes is gone with its
tombstone, and an epoch is raised in the same step that prepares the abort.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from penstock.protocol.value import Value

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 32_767
"""No producer gets it, so that there is always an epoch by which the last one is fenced."""
WITHOUT_TIMEOUT_MS: Final = 2**31 - 1
"""The time-out of a transaction whose end is decided elsewhere (KIP-939): it never runs out, and marks it alone."""
LONGEST_TIMEOUT_MS: Final = WITHOUT_TIMEOUT_MS - 1
"""Of any other."""
RAISES_EPOCHS: Final = 2
"""From this transaction.version on the epoch is raised with each transaction (KIP-890)."""

Partition = tuple[str, int]
"""A topic's name and an index."""
Partitions = Mapping[Partition, None]
"""In the order in which they were added. Read only."""


class State(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """As Kafka calls it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


NAMED: Final = {state.shown: state for state in State}
PREPARED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
OPEN: Final = (State.ONGOING, *PREPARED)
"""What has something left to be done about it."""
_BEFORE: Final[Mapping[State, tuple[State, ...]]] = {
    State.EMPTY: (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT),
    State.ONGOING: (State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT),
    State.PREPARE_COMMIT: (State.ONGOING,),
    State.PREPARE_ABORT: (State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT),
    State.COMPLETE_COMMIT: (State.PREPARE_COMMIT,),
    State.COMPLETE_ABORT: (State.PREPARE_ABORT,),
}


class Producer(Value):
    """Who writes, and who asks."""

    producer_id: int
    epoch: int


class Transaction(Value):
    """`previous_producer_id` is that of the step before, `next_producer_id` the one that the end will bring.

    With `next_producer_epoch` an ongoing transaction is kept: that producer may end it, and nobody may add to it.
    `last_epoch` is the producer's epoch before its present one, if it has asked itself for that; no record has it.
    `client_version` is the transaction.version of who took the last step.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: State = State.EMPTY
    partitions: Partitions = {}  # noqa: RUF012 - read only
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def is_kept(self) -> bool:
        """Whether it was prepared by the producer before, and waits for the present one to say how it ends."""
        return self.state is State.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def owner(self) -> Producer:
        """Who may end it."""
        if self.is_kept:
            return Producer(self.next_producer_id, self.next_producer_epoch)
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the owner's id has no epoch left for another producer."""
        return self.owner.epoch >= MAX_EPOCH - 1

    @property
    def is_decided_elsewhere(self) -> bool:
        """Whether its producer takes part in a two-phase commit."""
        return self.timeout_ms == WITHOUT_TIMEOUT_MS

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided."""
        return self.state in PREPARED

    @property
    def deadline_ms(self) -> int | None:
        """When it is aborted, if it is still ongoing then."""
        if self.state is not State.ONGOING or self.is_decided_elsewhere:
            return None
        return self.start_ms + self.timeout_ms

    def step(self, state: State, now_ms: int, **changes: Any) -> "Transaction":
        assert self.state in _BEFORE[state], f"no way leads from {self.state.shown} to {state.shown}"
        return self.replace(
            **{"state": state, "updated_ms": now_ms, "previous_producer_id": self.producer_id} | changes
        )

    # -- steps --------------------------------------------------------------------------------------------------------

    def begun_by(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        """Another producer has the id from now on, or the same one goes on after an error."""
        return self.step(
            State.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions={},
            start_ms=NO_TIME,
        )

    def with_partitions(self, partitions: Partitions, client_version: int, now_ms: int) -> "Transaction":
        return self.step(
            State.ONGOING,
            now_ms,
            partitions={**self.partitions, **partitions},
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            client_version=client_version,
        )

    def kept(self, fresh_id: int, timeout_ms: int, now_ms: int) -> "Transaction":
        """Another producer has the id from now on, and is to say how the transaction of the one before ends.

        It keeps the longer time-out: one that is decided elsewhere never gets a shorter one. `fresh_id` is taken
        where the epochs of the present owner's id are used up.
        """
        following = self._after_owner(fresh_id)
        return self.step(
            State.ONGOING,
            now_ms,
            next_producer_id=following.producer_id,
            next_producer_epoch=following.epoch,
            timeout_ms=max(self.timeout_ms, timeout_ms),
        )

    def _after_owner(self, fresh_id: int) -> Producer:
        if self.is_exhausted and fresh_id != NO_PRODUCER_ID:
            return Producer(fresh_id, 0)
        owner = self.owner
        return Producer(owner.producer_id, min(owner.epoch + 1, MAX_EPOCH))

    def prepared(self, *, commits: bool, now_ms: int) -> "Transaction":
        """Its end is decided, as transaction.version 0 and 1 have it: the epoch stays."""
        state = State.PREPARE_COMMIT if commits else State.PREPARE_ABORT
        return self.step(state, now_ms, next_producer_id=NO_PRODUCER_ID, client_version=0)

    def prepared_and_raised(self, *, commits: bool, fresh_id: int, now_ms: int) -> "Transaction":
        """Its end is decided, and the owner's next transaction has another epoch, or the fresh producer id.

        Its markers have the epoch above that of its records, whoever ends it.
        """
        owner, following = self.owner, self._after_owner(fresh_id)
        changes_producer = self.is_kept or following.producer_id != self.producer_id
        return self.step(
            State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_epoch=owner.epoch,
            previous_producer_id=owner.producer_id,
            next_producer_id=following.producer_id if changes_producer else NO_PRODUCER_ID,
            next_producer_epoch=following.epoch if self.is_kept else NO_EPOCH,
            client_version=RAISES_EPOCHS,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
        )

    def fenced(self, *, fresh_id: int, version: int, now_ms: int) -> "Transaction":
        """It is to be aborted, and its producer is one no more; `version` is the cluster's transaction.version."""
        if version >= RAISES_EPOCHS or self.is_kept:
            return self.prepared_and_raised(commits=False, fresh_id=fresh_id, now_ms=now_ms)
        epoch = min(self.producer_epoch + 1, MAX_EPOCH)
        return self.replace(producer_epoch=epoch, last_epoch=NO_EPOCH).prepared(commits=False, now_ms=now_ms)

    def completed(self, now_ms: int) -> "Transaction":
        """All partitions have their markers."""
        commits, following = self.state is State.PREPARE_COMMIT, {}
        if self.client_version >= RAISES_EPOCHS and self.next_producer_id != NO_PRODUCER_ID:
            following = {
                "producer_id": self.next_producer_id,
                "producer_epoch": max(self.next_producer_epoch, 0),
                "previous_producer_id": self.previous_producer_id,
            }
        return self.step(
            State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT,
            now_ms,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions={},
            **following,
        )
