"""How a client behaves: the names are those of Kafka's Java client in snake_case, and so are the defaults."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


def wall_clock_ms() -> int:
    """The time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What every kind of client needs.

    `now_ms` and `random` are the seams for tests: record timestamps and the jitter of back-offs come from them.
    """

    client_id: str = "penstock"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    now_ms: Callable[[], int] = wall_clock_ms
    random: Random = field(default_factory=Random)

    def backoff_ms(self, attempt: int) -> float:
        """How long to wait after the failed attempt number `attempt` (from 0): doubling, bounded, 20 % of jitter."""
        full = min(self.retry_backoff_ms * (1 << min(attempt, 20)), self.retry_backoff_max_ms)
        return full * self.random.uniform(0.8, 1.2)
