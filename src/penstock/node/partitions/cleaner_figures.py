"""What compaction says of itself in numbers, by the names of Kafka's metrics, and when each log had its turn."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.log.compaction.rounds import Summary
from penstock.log.partition_log import PartitionLog

CLEANER = "LogCleaner"
MANAGER = "LogCleanerManager"


class CleanerFigures:
    """Of the last round, and of the last look at all logs."""

    def __init__(self, now_ms: int) -> None:
        self.deaths = 0
        self.delay_ms = 0
        self.dirtiest_ratio = 0.0
        self._looked_ms = now_ms
        self._round_ms = 0
        self._last: Summary | None = None
        self._cleaned_ms: dict[PartitionLog, int] = {}

    def begin_look(self, now_ms: int) -> None:
        """All logs are looked at."""
        self._looked_ms = now_ms
        self.delay_ms = 0
        for log in [log for log in self._cleaned_ms if log.is_deleted]:
            del self._cleaned_ms[log]

    def note_round(self, log: PartitionLog, summary: Summary, began_ms: int, now_ms: int) -> None:
        """A round is over."""
        self._last = summary
        self._round_ms = now_ms - began_ms
        self._cleaned_ms[log] = now_ms

    def cleaned_ms(self, log: PartitionLog) -> int:
        """When a log was compacted last; -1 if that was not since the start of the node."""
        return self._cleaned_ms.get(log, -1)

    def rows(self, uncleanable: int, uncleanable_bytes: int, now_ms: int) -> Iterator[tuple[str, str, float]]:
        """(group, name, value) of each figure."""
        last = self._last
        yield CLEANER, "cleaner-recopy-percent", int(100 * _share(last.bytes_written, last.bytes_read)) if last else 0
        yield CLEANER, "max-clean-time-secs", self._round_ms // 1000
        yield CLEANER, "max-buffer-utilization-percent", int(100 * _share(last.keys, last.capacity)) if last else 0
        yield CLEANER, "max-compaction-delay-secs", self.delay_ms // 1000
        yield CLEANER, "DeadThreadCount", self.deaths
        yield MANAGER, "max-dirty-percent", int(100 * self.dirtiest_ratio)
        yield MANAGER, "time-since-last-run-ms", now_ms - self._looked_ms
        yield MANAGER, "uncleanable-partitions-count", uncleanable
        yield MANAGER, "uncleanable-bytes", uncleanable_bytes


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
