"""What the parts of a share coordinator's shard share: the states, the agenda, and the work of each interval."""

from collections import deque
from collections.abc import Callable

from penstock.coordinator.machine import Agenda, Continuation
from penstock.coordinator.share.decisions import renewed
from penstock.coordinator.share.image import Needed, ShareImage
from penstock.coordinator.share.records import SharePartitionKey, ShareRecord, ShareState, Snapshot
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.coordinator.timers import Timer
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode

PAUSE_MS = 1
"""Between some of very many states and the next ones."""
BATCH_BYTES = 256 * 1024
"""From here on the rest goes into another batch: names of groups have up to 32 kB."""

Look = Callable[[SharePartitionKey, ShareState, int], ShareRecord | None]
"""What is to be written of a state at a time, if anything."""


class ShareTable(Agenda[ShareRecord]):
    image: ShareImage

    def __init__(self, settings: ShareCoordinatorSettings, cluster: ClusterImage) -> None:
        super().__init__(settings.write_timeout_ms, ShareImage())
        self.settings = settings
        self.needed = Needed()
        self._cluster = cluster
        self._cut_at = 0
        self._is_dropping = self._drops_again = False

    def knows(self, key: SharePartitionKey) -> bool:
        """Whether there is such a partition."""
        topic = self._cluster.topics_by_id.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    def noting(self, records: list[ShareRecord]) -> Continuation:
        """For a write of these records: where they are in the log is known when they are committed."""

        def then(error: ErrorCode, now_ms: int) -> None:
            if error is ErrorCode.NONE:
                for number, record in enumerate(records):
                    self.needed.note(record, self.written_at + number)

        return then

    # -- the work of each interval ------------------------------------------------------------------------------------

    def schedule(self, now_ms: int) -> None:
        self.timers.set(Timer(self._prune), now_ms + self.settings.prune_interval_ms)
        self.timers.set(Timer(self._renew), now_ms + self.settings.cold_interval_ms)

    def _prune(self, now_ms: int) -> None:
        self.timers.set(Timer(self._prune), now_ms + self.settings.prune_interval_ms)
        if self.needed.offset > self._cut_at:
            self._cut_at = self.needed.offset
            self.cut(self._cut_at)

    def _renew(self, now_ms: int) -> None:
        """One cold state holds the whole log. Where all were renewed, and nothing has happened since, it is as short as
        it gets.
        """
        self.timers.set(Timer(self._renew), now_ms + self.settings.cold_interval_ms)
        if any(state.created_ms == state.written_ms or state.updates for state in self.image.states.values()):
            self._in_turns(self._renewed, now_ms)

    def _renewed(self, key: SharePartitionKey, state: ShareState, now_ms: int) -> ShareRecord | None:
        is_cold = now_ms - state.written_ms >= self.settings.cold_interval_ms
        return renewed(key, state, now_ms) if is_cold else None

    def drop_unknown(self, now_ms: int) -> None:
        """Topics are gone, and with them what groups have read there. One walk at a time; then another for what has
        gone meanwhile.
        """
        if self._is_dropping:
            self._drops_again = True
            return
        self._is_dropping, self._drops_again = True, False
        self.timers.set(Timer(self._in_turns, self._dropped), now_ms)  # all coordinators of a node hear of it together

    def _dropped(self, key: SharePartitionKey, state: ShareState, now_ms: int) -> ShareRecord | None:
        return None if self.knows(key) else Snapshot(key, None)

    def _in_turns(self, look: Look, now_ms: int) -> None:
        """Look at all states, some at a time."""
        self._go_on(deque(self.image.states), look, now_ms)

    def _go_on(self, left: deque[SharePartitionKey], look: Look, now_ms: int) -> None:
        records: list[ShareRecord] = []
        looked_at = size = 0
        while left and looked_at < self.settings.at_once and size < BATCH_BYTES:
            key = left.popleft()
            state = self.image.states.get(key)
            record = None if state is None else look(key, state, now_ms)
            looked_at += 1
            if record is not None:
                records.append(record)
                size += record.size
        if records:
            self.append(records, now_ms, then=self.noting(records))
        if left:
            self.timers.set(Timer(self._go_on, left, look), now_ms + PAUSE_MS)
        elif look == self._dropped:
            self._is_dropping = False
            if self._drops_again:
                self.drop_unknown(now_ms)
