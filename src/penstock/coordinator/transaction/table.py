"""The transactional ids of one partition with all that is under way for them: writes, markers, time-outs.

Once the end of a transaction is committed (`PrepareCommit`, `PrepareAbort`) nothing takes it back. Its markers are sent
until every partition has one or is gone; then it is complete. A coordinator that takes over finds it in the log, and
goes on with that.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from penstock.coordinator.effects import Markers, NewProducerId, Token
from penstock.coordinator.group.write_errors import group_write_error
from penstock.coordinator.machine import Agenda
from penstock.coordinator.timers import Timer
from penstock.coordinator.transaction.decisions import Decision, Moment, Needs, decide_timeout
from penstock.coordinator.transaction.image import TransactionImage
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.records import TransactionRecord
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.coordinator.transaction.transaction import NO_PRODUCER_ID, Partition, State, Transaction
from penstock.protocol.errors import ErrorCode

Decide = Callable[[Transaction | None, Moment], Decision]
Told = Callable[[Transaction], Outcome]
"""What the client is told when a step is committed."""

SETTLED: Final = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""Answers after which a partition needs no marker: it has it, is gone, or knows a later transaction of the producer."""


class _Waiting:
    __slots__ = ("again", "timer", "token")

    def __init__(self, token: Token, again: Callable[[int], None], timer: Timer) -> None:
        self.token = token
        self.again = again
        self.timer = timer


class _Ending:
    """A transaction whose end is decided, and the partitions that have no marker yet."""

    __slots__ = ("left", "prepared", "transactional_id")

    def __init__(self, transactional_id: str, prepared: Transaction) -> None:
        self.transactional_id = transactional_id
        self.prepared = prepared
        self.left = dict.fromkeys(prepared.partitions)


class TransactionTable(Agenda[TransactionRecord]):
    image: TransactionImage

    def __init__(self, settings: TransactionSettings, coordinator_epoch: int, version: int) -> None:
        """`version` is the cluster's transaction.version."""
        super().__init__(settings.write_timeout_ms, TransactionImage())
        self.settings = settings
        self.version = version
        self._coordinator_epoch = coordinator_epoch
        self._timeouts: dict[str, Timer] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        """Requests about ids whose last transaction gets its markers."""
        self._has_ended = False

    def known(self, transactional_id: str) -> Transaction | None:
        return self.image.transactions.get(transactional_id)

    # -- steps --------------------------------------------------------------------------------------------------------

    def decide(
        self,
        transactional_id: str,
        decide: Decide,
        now_ms: int,
        *,
        token: Token | None = None,
        told: Told,
        fresh_id: int | None = None,
        may_wait: bool = True,
    ) -> None:
        """Take the step that `decide` finds; `token` is answered with an `Outcome` when it is committed.

        While the transaction before gets its markers, which takes moments, the request waits for that.
        """
        known = self.known(transactional_id)
        decision = decide(known, Moment(now_ms, self.version, fresh_id))
        if isinstance(decision, Transaction):
            self._take(transactional_id, decision, now_ms, token, partial(told, decision))
        elif decision is Needs.PRODUCER_ID:
            again = partial(self._decide_again, transactional_id, decide, token, told)
            self.send(NewProducerId(), again)
        elif token is not None and decision is ErrorCode.CONCURRENT_TRANSACTIONS and may_wait:
            again = partial(self.decide, transactional_id, decide, token=token, told=told, may_wait=False)
            self._wait_for_end(transactional_id, token, again, now_ms)
        elif token is not None:
            assert isinstance(decision, ErrorCode)
            self._refuse(token, decision, told, known, now_ms)

    def _decide_again(
        self, transactional_id: str, decide: Decide, token: Token | None, told: Told, fresh_id: Any, error: ErrorCode,
        now_ms: int,
    ) -> None:  # fmt: skip
        if error is ErrorCode.NONE:
            self.decide(transactional_id, decide, now_ms, token=token, told=told, fresh_id=fresh_id)
        else:
            self.reply(token, Outcome(error))
            self.watch(transactional_id, now_ms)

    def _refuse(self, token: Token, error: ErrorCode, told: Told, known: Transaction | None, now_ms: int) -> None:
        """What may rest on a write that is under way waits for it, but for what makes the client come back."""
        outcome = told(known) if error is ErrorCode.NONE and known is not None else Outcome(error)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.reply(token, outcome)
        else:
            self.answer_when_committed(token, partial(_unless_lost, lambda: outcome), now_ms)

    def _wait_for_end(self, transactional_id: str, token: Token, again: Callable[[int], None], now_ms: int) -> None:
        waiting = _Waiting(token, again, Timer(self._give_up, transactional_id))
        self._waiting.setdefault(transactional_id, []).append(waiting)
        self.timers.set(waiting.timer, now_ms + self.settings.longest_wait_ms)

    def _give_up(self, transactional_id: str, now_ms: int) -> None:
        """Who has waited longest, as all do for the same time."""
        some = self._waiting[transactional_id]
        self.reply(some.pop(0).token, Outcome(ErrorCode.CONCURRENT_TRANSACTIONS))
        if not some:
            del self._waiting[transactional_id]

    def _take(
        self, transactional_id: str, step: Transaction, now_ms: int, token: Token | None, told: Callable[[], Outcome]
    ) -> None:
        def then(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE and step.is_prepared:
                self.carry_out(transactional_id, step, now_ms)
            elif error is not ErrorCode.NONE:
                self.watch(transactional_id, now_ms)

        records = [self._record(transactional_id, step)]
        self.append(records, now_ms, then=then, token=token, answer=partial(_unless_lost, told))
        self.watch(transactional_id, now_ms)

    def _record(self, transactional_id: str, step: Transaction) -> TransactionRecord:
        """In the layout of the cluster's transaction.version; where another producer follows, in one that says so."""
        is_followed = step.next_producer_id != NO_PRODUCER_ID
        return TransactionRecord(transactional_id, step, 1 if is_followed else min(self.version, 1))

    # -- the end of a transaction -------------------------------------------------------------------------------------

    def carry_out(self, transactional_id: str, prepared: Transaction, now_ms: int) -> None:
        """All partitions get their markers."""
        ending = _Ending(transactional_id, prepared)
        if ending.left:
            self._send_markers(ending, dict(ending.left), 0, now_ms)
        else:
            self._complete(transactional_id, prepared, now_ms)

    def _send_markers(self, ending: _Ending, unheard: dict[Partition, None], attempt: int, now_ms: int) -> None:
        prepared = ending.prepared
        markers = Markers(
            prepared.producer_id,
            prepared.producer_epoch,
            self._coordinator_epoch,
            prepared.state is State.PREPARE_COMMIT,
            prepared.client_version,
            tuple(unheard),
        )
        self.send(markers, partial(self._answered, ending, unheard, attempt))

    def _answered(
        self, ending: _Ending, unheard: dict[Partition, None], attempt: int, answer: Any, error: ErrorCode, now_ms: int
    ) -> None:
        """Of some of them, or of all. What has to be tried again does not wait for the others."""
        errors: dict[Partition, ErrorCode] = answer if error is ErrorCode.NONE else dict.fromkeys(unheard, error)
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in errors.values():
            self.note(f"{ending.transactional_id}: a newer coordinator ends its transaction")
            unheard.clear()
            return
        again = {it: None for it in unheard if it in errors and errors[it] not in SETTLED}
        for partition in errors:
            unheard.pop(partition, None)
            if partition not in again:
                ending.left.pop(partition, None)
        if again:
            self._later(partial(self._send_markers, ending, again, attempt + 1), attempt, now_ms)
        elif errors and not ending.left:
            self._complete(ending.transactional_id, ending.prepared, now_ms)

    def _complete(self, transactional_id: str, prepared: Transaction, now_ms: int, attempt: int = 0) -> None:
        assert self.known(transactional_id) is prepared, "nothing but its markers ends what is prepared"

        def then(error: ErrorCode, now_ms: int) -> None:
            if error is not ErrorCode.NONE:
                self._later(partial(self._complete_again, transactional_id, prepared, attempt + 1), attempt, now_ms)

        self.append([self._record(transactional_id, prepared.completed(now_ms))], now_ms, then=then)
        for waiting in self._waiting.pop(transactional_id, ()):
            waiting.timer.deadline_ms = None
            waiting.again(now_ms)

    def _complete_again(self, transactional_id: str, prepared: Transaction, attempt: int, now_ms: int) -> None:
        self._complete(transactional_id, prepared, now_ms, attempt)

    def _later(self, what: Callable[[int], None], attempt: int, now_ms: int) -> None:
        """The pause grows with each attempt. Nothing follows once the machine has ended."""
        if not self._has_ended:
            pause_ms = min(self.settings.retry_backoff_ms << min(attempt, 10), self.settings.retry_backoff_max_ms)
            self.timers.set(Timer(what), now_ms + pause_ms)

    # -- time ---------------------------------------------------------------------------------------------------------

    def watch(self, transactional_id: str, now_ms: int) -> None:
        """Abort the transaction when its time is over; that is looked for at intervals."""
        known = self.known(transactional_id)
        deadline_ms = None if known is None else known.deadline_ms
        if deadline_ms is None:
            return
        timer = self._timeouts.get(transactional_id)
        if timer is None:
            timer = self._timeouts[transactional_id] = Timer(self._time_out, transactional_id)
        interval_ms = self.settings.abort_interval_ms
        self.timers.set(timer, (max(deadline_ms, now_ms) // interval_ms + 1) * interval_ms)

    def _time_out(self, transactional_id: str, now_ms: int) -> None:
        self.watch(transactional_id, now_ms)  # should there be no producer id, or the write fail
        self.decide(transactional_id, decide_timeout, now_ms, told=lambda _: Outcome(ErrorCode.NONE))

    def in_turns(self, ids: Iterable[str], do: Callable[[str, int], None], now_ms: int) -> None:
        """Do something with each of many ids, some at a time."""
        self._go_on(iter(ids), do, now_ms)

    def _go_on(self, ids: Iterator[str], do: Callable[[str, int], None], now_ms: int) -> None:
        some = list(islice(ids, self.settings.at_once))
        for transactional_id in some:
            do(transactional_id, now_ms)
        if len(some) == self.settings.at_once:
            self.timers.set(Timer(self._go_on, ids, do), now_ms + 1)

    def forget_timer(self, transactional_id: str) -> None:
        timer = self._timeouts.pop(transactional_id, None)
        if timer is not None:
            timer.deadline_ms = None

    def end(self, error: ErrorCode, now_ms: int) -> None:
        """Another node coordinates from now on."""
        self._has_ended = True
        for waiting in [one for some in self._waiting.values() for one in some]:
            self.reply(waiting.token, Outcome(error))
        self._waiting.clear()
        self.fail_all(error, now_ms)

    def let_go(self) -> None:
        super().let_go()
        self._timeouts.clear()


def _unless_lost(told: Callable[[], Outcome], error: ErrorCode) -> Outcome:
    return told() if error is ErrorCode.NONE else Outcome(group_write_error(error))
