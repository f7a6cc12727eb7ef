"""The time-outs and sizes of the metadata quorum, by Kafka's names and defaults."""

from typing import Final

from penstock.leadership.lease import MAX_DRIFT
from penstock.protocol.value import Value

NEVER: Final = 1 << 62
"""A deadline that never comes."""

MAX_OBSERVERS: Final = 1_000
"""How many observers a leader keeps in mind; it forgets the one that it has not heard from for longest."""

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that was not heard from for so long is forgotten."""


class RaftSettings(Value, kw_only=True):
    """`controller.quorum.*`; sizes are those of one answer."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 * 1024 * 1024
    fetch_snapshot_max_bytes: int = 8 * 1024 * 1024
    auto_join: bool = False
    """Whether an observer makes itself a voter, in the place of one that had its id and another disk (KIP-853)."""
    leases: bool = False
    """Whether a voter promises the leader it hears to elect no other for a while, and leads within leases."""
    max_clock_drift: float = MAX_DRIFT
    """By how much of the true time the clock of a voter may go wrong, if leases are to hold."""

    @property
    def lease_ms(self) -> int:
        """A voter that hears the leader promises so much; it stands a millisecond later: clocks have whole ones."""
        return self.fetch_timeout_ms - 1

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Longer than the voters' own patience by half, as in Kafka: a leader does not go while they believe in it."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """A voter that has not fetched for so long is told again who leads."""
        return self.fetch_timeout_ms // 2
