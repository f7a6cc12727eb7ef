"""What `penstock producer-perf-test` says of the records that were sent: in between, and in all."""

from collections.abc import Sequence
from typing import Final

from penstock.cli.terminal.lines import say

MOST_SAMPLES: Final = 500_000
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)
MEBIBYTE: Final = 1 << 20


class Window:
    """Records, their bytes and latencies since a moment."""

    def __init__(self, now_ms: float) -> None:
        self.begun_ms = now_ms
        self.count = self.bytes = 0
        self.total_ms = self.longest_ms = 0.0

    def add(self, latency_ms: float, size: int) -> None:
        self.count += 1
        self.bytes += size
        self.total_ms += latency_ms
        self.longest_ms = max(self.longest_ms, latency_ms)

    def rates(self, now_ms: float) -> tuple[float, float]:
        """Records and MB a second."""
        elapsed_s = (now_ms - self.begun_ms) / 1000
        if elapsed_s <= 0:
            return 0.0, 0.0
        return self.count / elapsed_s, self.bytes / MEBIBYTE / elapsed_s

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


class Latencies:
    """Of `expected` records, and each interval of its own; `title` stands behind the number of records."""

    def __init__(self, expected: int, interval_ms: int, now_ms: float, title: str = "") -> None:
        self._interval_ms = interval_ms
        self._title = title
        self._every = max(expected // MOST_SAMPLES, 1)
        self._samples: list[int] = []
        self._all, self._window = Window(now_ms), Window(now_ms)
        self.is_silent = False

    @property
    def count(self) -> int:
        return self._all.count

    def record(self, latency_ms: float, size: int, now_ms: float) -> None:
        if self._all.count % self._every == 0:
            self._samples.append(int(latency_ms))
        self._all.add(latency_ms, size)
        self._window.add(latency_ms, size)
        if now_ms - self._window.begun_ms >= self._interval_ms:
            if not self.is_silent:
                say(self._interval_line(now_ms))
            self._window = Window(now_ms)

    def _interval_line(self, now_ms: float) -> str:
        window = self._window
        records, megabytes = window.rates(now_ms)
        return (
            f"{window.count} records sent, {records:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{window.mean_ms:.1f} ms avg latency, {window.longest_ms:.1f} ms max latency."
        )

    def total_line(self, now_ms: float) -> str:
        records, megabytes = self._all.rates(now_ms)
        parts = zip(percentiles(self._samples), ("50th", "95th", "99th", "99.9th"), strict=True)
        return (
            f"{self._all.count}{self._title} records sent, {records:f} records/sec ({megabytes:.2f} MB/sec), "
            f"{self._all.mean_ms:.2f} ms avg latency, {self._all.longest_ms:.2f} ms max latency, "
            f"{', '.join(f'{value} ms {name}' for value, name in parts)}."
        )


def percentiles(samples: Sequence[int], shares: Sequence[float] = PERCENTILES) -> list[int]:
    """The sample at each share of them; 0 where there is none."""
    in_order = sorted(samples)
    return [in_order[int(share * len(in_order))] if in_order else 0 for share in shares]
