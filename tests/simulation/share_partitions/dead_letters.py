"""The topic of dead letters in the world of a share partition, and those who write to it, which may fail.

What must hold, whatever happens:

* a record has one letter from each leader at most, and one that another leader may have written says so;
* a record whose letter is on its way is given away to nobody, by no leader, once the share coordinator has that it is;
* that it has it before its letter goes out, unless the lock of the record ran out;
* a letter says how often its record was delivered;
* where more die at once than may in a minute, nothing is given away for half a minute;
* when all is well again, each record that was given up has its letter, unless its writer gave up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.failures import How

ATTEMPTS = 5
PAUSE_MS = 30_000


class DeadLetterError(AssertionError):
    pass


class DeadLetterTopic:
    """`is_there` says whether the group has it; `rate` what may die in a minute, -1 for all."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"dead letters {seed}")
        self.is_there = self.random.random() < 0.5
        self.rate = self.random.choice([-1, -1, 10, 40])
        self.records: set[int] = set()
        """Of which there is a letter."""
        self.lost: set[int] = set()
        """Whose writer has given up."""
        self.over: set[int] = set()
        """Whose writer is done, one way or the other."""
        self._settled: set[int] = set()
        self._sent: dict[int, set[int]] = {}
        """By leader."""
        self._paused_until_ms: int | None = None

    def send(
        self,
        leader: int,
        letters: Sequence[DeadLetter],
        counts: dict[int, int],
        is_known: Callable[[int], bool],
        now_ms: int,
    ) -> None:
        """`counts` is how often the leader knows each record to have been delivered, `now_ms` by its clock; `is_known`
        says of what the share coordinator has that nobody gets it again.
        """
        sent = self._sent.setdefault(leader, set())
        for it in letters:
            for record in range(it.first, it.last + 1):
                if record in sent:
                    raise DeadLetterError(f"leader {leader} has a second letter of record {record}")
                if counts.get(record) != it.delivery_count:
                    raise DeadLetterError(f"{it} has another count than {counts.get(record)}")
                if not it.may_repeat and record in self._settled:
                    raise DeadLetterError(f"{it} may be there already, and does not say so")
                sent.add(record)
                if is_known(record):
                    self._settled.add(record)
                elif it.failures is not None and it.failures.last.how is not How.LOCK_RAN_OUT:
                    raise DeadLetterError(f"record {record} has a letter before that is written down: {it}")
        if 0 <= self.rate < sum(it.count for it in letters):
            self._paused_until_ms = now_ms + PAUSE_MS

    def arrives(self, letters: Sequence[DeadLetter], attempt: int, *, is_calm: bool) -> bool:
        """Whether the writer is done with them; what it is not told of may be written all the same."""
        records = [record for it in letters for record in range(it.first, it.last + 1)]
        is_written = is_calm or self.random.random() < 0.6
        if is_written:
            self.records.update(records)
        is_told = is_written and (is_calm or self.random.random() < 0.8)
        if not is_told and attempt < ATTEMPTS:
            return False
        if not is_told:
            self.lost.update(records)
        self.over.update(records)
        return True

    def check_delivery(self, record: int) -> None:
        if record in self._settled:
            raise DeadLetterError(f"record {record} has a letter, and is given away")
        if self._paused_until_ms is not None:
            raise DeadLetterError(f"too many died, and record {record} is given away")

    def time_passed(self, now_ms: int) -> None:
        if self._paused_until_ms is not None and now_ms >= self._paused_until_ms:
            self._paused_until_ms = None

    def new_leader(self) -> None:
        """It does not know how many died before."""
        self._paused_until_ms = None
