"""Decides about a batch once, and carries it out: a generator of steps, which is sent what each of them found.

| step           | answer                                  | after a crash behind it                                   |
| -------------- | --------------------------------------- | --------------------------------------------------------- |
| `Fence`        |                                         | nothing is decided: the batch runs again                  |
| `Look`         | the last decision of the query, or None | the same                                                  |
| `ListOpen`     | open transactions of the query's tasks  | the same                                                  |
| `Write`        | whether there was time                  | it is decided: who comes next carries it out              |
| `End` (commit) | whether it is committed, None: unknown  | the same; what is committed stays so                      |
| `End` (abort)  |                                         | the same                                                  |

`Write` fails if another process has come to `Fence` since this one did. So one process decides about a batch, and what
it has listed before belongs to this batch or to earlier ones: tasks of the next one begin when it is carried out. That
is why nothing is ended before `Write`, and what is aborted then is named with its producer's epoch: an order that
comes late meets no other transaction. Who finds a decision, or comes too late to decide, aborts nothing but its own:
the next batch may have begun.

What is open when a run of the query ends would stay so if no other comes: of tasks that began after the last list, or
that it missed, as their coordinator moved. `settling` ends it. Another run may have begun, and what is listed may be
its own: so it is written down first what is aborted, and who decides does without these.
"""

from collections.abc import Collection, Generator, Sequence
from typing import Any, Final, TypeAlias

from penstock.client.values import TransactionName
from penstock.pipeline.once.decision import Decision
from penstock.protocol.value import Value

NO_BATCH: Final = -1


class Fence(Value):
    """Be the only process that decides for this query."""


class Look(Value):
    pass


class ListOpen(Value):
    pass


class Write(Value):
    """Durably, and only if no other process has come to `Fence`: else the step raises. Not where a cluster that keeps
    the transactions for a while would abort them before the decision is carried out for certain.
    """

    decision: Decision


class End(Value):
    """Repeated until it is known what became of it; an end that was asked for before is the same one."""

    transaction: TransactionName
    commits: bool


Step: TypeAlias = Fence | Look | ListOpen | Write | End
Deciding: TypeAlias = Generator[Step, Any, Decision]


class OutrunError(Exception):
    """Another process of the same query is further: this one has nothing to say any more."""


class FencedError(OutrunError):
    """Another process has come to `Fence` since, or this one took too long: whether one is further is not known."""


class AbortedError(Exception):
    """A task's transaction is not there any more: its time was over, or someone has ended it. The batch runs again."""


class LateError(Exception):
    """Too little is left of the time for which the cluster keeps the batch's transactions. They are aborted."""


class LostError(Exception):
    """A batch was decided, and one of its transactions is aborted, or forgotten. It has come to be known too late."""

    def __init__(self, batch: int, transaction: TransactionName, *, is_forgotten: bool = False) -> None:
        became = "is forgotten: committed or aborted" if is_forgotten else "is aborted"
        super().__init__(f"batch {batch} was decided, and its transaction {transaction.transactional_id} {became}")
        self.batch = batch
        self.is_forgotten = is_forgotten
        self.transaction = transaction


def deciding(batch: int, prepared: Collection[TransactionName]) -> Deciding:
    """`prepared` are the transactions of this attempt. Returns what is decided, which may be an earlier attempt."""
    yield Fence()
    last: Decision | None = yield Look()
    decision, left = _about(batch, last), tuple(prepared)
    if decision is None:
        decision, left = Decision(batch, tuple(prepared)), (yield ListOpen())
        settled = () if last is None else last.aborted
        aborted = [one for one in prepared if one not in left or one in settled]
        if aborted:
            raise AbortedError(f"{aborted[0].transactional_id} was aborted before batch {batch} was decided")
        is_in_time = yield Write(decision)
        if not is_in_time:
            for transaction in prepared:
                yield End(transaction, commits=False)
            raise LateError(f"batch {batch} was not decided, as it could not be carried out in time for certain")
    for transaction in decision.transactions:
        is_committed = yield End(transaction, commits=True)
        if not is_committed:
            _about(batch, (yield Look()))
            raise LostError(batch, transaction, is_forgotten=is_committed is None)
    for transaction in left:
        if transaction not in decision.transactions:
            yield End(transaction, commits=False)
    return decision


def _about(batch: int, last: Decision | None) -> Decision | None:
    """What is decided about this batch. OutrunError where it is one about a later one."""
    if last is None or last.batch < batch:
        return None
    if last.batch > batch:
        raise OutrunError(f"batch {batch} is over: another process has decided about batch {last.batch}")
    return last


def giving_up(batch: int, prepared: Collection[TransactionName]) -> Generator[Step, Any, None]:
    """Of an attempt that has failed, perhaps once it was decided: what is not, and cannot be any more, is aborted."""
    yield Fence()
    decision = _about(batch, (yield Look()))
    for transaction in prepared:
        if decision is None or transaction not in decision.transactions:
            yield End(transaction, commits=False)


def settling() -> Generator[Step, Any, None]:
    """When a run of the query is over: what is decided is carried out, and what else is open is aborted."""
    yield Fence()
    last: Decision | None = yield Look()
    last = last or Decision(NO_BATCH, ())
    still_open: Sequence[TransactionName] = yield ListOpen()
    aborted = tuple(one for one in still_open if one not in last.transactions)
    if aborted:
        for transaction in last.aborted:  # once they are over nobody can decide with them: that need not be written
            yield End(transaction, commits=False)
        yield Write(last.replace(aborted=aborted))
    for transaction in still_open:
        yield End(transaction, commits=transaction in last.transactions)
