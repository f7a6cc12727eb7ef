"""A cluster as the sink sees it: transactional ids with their coordinators, decisions, and what readers are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.client.values import TransactionName
from penstock.pipeline.once.decision import Decision

Row = tuple[int, int]
"""Of a batch, with its number."""


class FencedError(Exception):
    """Another producer has the id."""


@dataclass(slots=True)
class Id:
    epoch: int = -1
    rows: list[Row] = field(default_factory=list)
    is_open: bool = False
    ends: dict[int, bool] = field(default_factory=dict)
    """By epoch, whether it was committed."""


class Cluster:
    def __init__(self, *, keeps: bool) -> None:
        """`keeps`: transactions that are decided elsewhere have no time-out."""
        self.keeps = keeps
        self.ids: dict[str, Id] = {}
        self.decider_epoch = -1
        self.decisions: list[Decision] = []
        self.visible: list[Row] = []
        self.committed: set[TransactionName] = set()
        self.late: list[Callable[[], object]] = []
        """Orders that were sent, and have not arrived."""

    # -- tasks --------------------------------------------------------------------------------------------------------

    def begin(self, name: str) -> TransactionName:
        known = self.ids.setdefault(name, Id())
        if known.is_open:
            self._end(known, commits=False)
        known.epoch += 1
        return TransactionName(name, 1, known.epoch, self.keeps)

    def write(self, producer: TransactionName, row: Row) -> None:
        known = self.ids[producer.transactional_id]
        if known.epoch != producer.epoch or producer.epoch in known.ends:
            raise FencedError(producer.transactional_id)
        known.is_open = True
        known.rows.append(row)

    def end(self, producer: TransactionName, *, commits: bool) -> bool:
        """Whether it has ended so now, or before, as far as the coordinator knows: of the last epoch."""
        known = self.ids[producer.transactional_id]
        if producer.epoch != known.epoch:
            return False
        if producer.epoch not in known.ends:
            self._end(known, commits=commits)
            if commits:
                self.committed.add(producer)
        return known.ends[producer.epoch] == commits

    @property
    def is_decision_lost(self) -> bool:
        """Whether a part of the last one is aborted."""
        return self.last is not None and any(
            one not in self.committed and one not in self.open_ones() for one in self.last.transactions
        )

    def _end(self, known: Id, *, commits: bool) -> None:
        if commits:
            self.visible += known.rows
        known.rows.clear()
        known.is_open = False
        known.ends[known.epoch] = commits

    def time_out(self, name: str) -> None:
        """Its producer is fenced."""
        known = self.ids[name]
        if known.is_open and not self.keeps:
            self._end(known, commits=False)
            known.epoch += 1

    def open_ones(self) -> list[TransactionName]:
        return [TransactionName(name, 1, it.epoch, self.keeps) for name, it in self.ids.items() if it.is_open]

    # -- decisions ----------------------------------------------------------------------------------------------------

    def fence(self) -> int:
        self.decider_epoch += 1
        return self.decider_epoch

    def decide(self, epoch: int, decision: Decision) -> None:
        if epoch != self.decider_epoch:
            raise FencedError("the decider")
        self.decisions.append(decision)

    @property
    def last(self) -> Decision | None:
        return self.decisions[-1] if self.decisions else None

    def arrive(self, number: int) -> None:
        self.late.pop(number)()
