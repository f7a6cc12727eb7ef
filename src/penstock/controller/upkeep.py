"""What the active controller does without being asked, when it is time.

| what | when |
| --- | --- |
| moves go on that were too many for one decision | at once |
| a broker that has been silent for too long is fenced | when its session ends |
| a partition without a leader gets an outdated one where that is allowed | `unclean.leader.election.interval.ms` |
| the same | when anybody has changed where it is allowed |
| leadership returns to the preferred replicas | `leader.imbalance.check.interval.seconds` |
"""

from collections.abc import Iterator
from itertools import islice

from penstock.controller.brokers import fence_silent_broker
from penstock.controller.decision import ControllerState
from penstock.controller.moves import finish, led_anew
from penstock.controller.partition_change import Election, Electorate, Wanted, changed
from penstock.metadata.partition_index import each
from penstock.metadata.records import MetadataRecord

MAX_ELECTIONS = 1_000
"""Elections that nobody waits for: at most so many in one decision, as in Kafka."""


class Upkeep:
    """Finds out what is due. It begins with the first decision of a controller that took over."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._has_begun = False
        self._next_unclean_ms: int | None = None
        self._next_balance_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """The controller is active from now on; without effect but for the first time."""
        if not self._has_begun:
            self._has_begun = True
            self._state.heartbeats.begin(self._state.image, now_ms)
            self._next_unclean_ms = _later(now_ms, self._state.settings.unclean_election_interval_ms)
            self._next_balance_ms = _later(now_ms, self._state.settings.leader_balance_interval_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When something is due; 0 is at once, None is never."""
        if not self._has_begun or not self._state.heartbeats.is_finished or self._state.unclean_is_due:
            return 0
        deadlines = (self._state.heartbeats.deadline_ms, self._next_unclean_ms, self._next_balance_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def due(self, now_ms: int) -> list[MetadataRecord]:
        """The records of one thing that is due; none if nothing is."""
        for broker_id in list(self._state.heartbeats.unfinished):
            records = finish(self._state, broker_id)
            if records:
                return records
        return fence_silent_broker(self._state, now_ms) or self._elect_uncleanly(now_ms) or self._balance(now_ms)

    def _elect_uncleanly(self, now_ms: int) -> list[MetadataRecord]:
        is_time = self._next_unclean_ms is not None and now_ms >= self._next_unclean_ms
        if not is_time and not self._state.unclean_is_due:
            return []
        records = list(islice(self._unclean(), MAX_ELECTIONS))
        self._state.unclean_is_due &= bool(records)
        if is_time and len(records) < MAX_ELECTIONS:
            self._next_unclean_ms = _later(now_ms, self._state.settings.unclean_election_interval_ms)
        return records

    def _balance(self, now_ms: int) -> list[MetadataRecord]:
        if self._next_balance_ms is None or now_ms < self._next_balance_ms:
            return []
        records = list(islice(self._preferred(), MAX_ELECTIONS))
        if len(records) < MAX_ELECTIONS:
            self._next_balance_ms = _later(now_ms, self._state.settings.leader_balance_interval_ms)
        return records

    def _unclean(self) -> Iterator[MetadataRecord]:
        for topic, index in each(self._state.image.index.leaderless):
            record = led_anew(self._state, topic, index)
            if record is not None:
                yield record

    def _preferred(self) -> Iterator[MetadataRecord]:
        electorate = Electorate(self._state)
        for name, index in each(self._state.image.index.moved):
            topic = self._state.image.topics[name]
            record = changed(electorate, topic, index, Wanted(election=Election.PREFERRED))
            if record is not None:
                yield record


def _later(now_ms: int, interval_ms: int | None) -> int | None:
    return None if interval_ms is None else now_ms + interval_ms
