"""What compaction says of itself in numbers, by the names of Kafka's metrics, and when each log had its turn."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from penstock.log.compaction.rounds import Summary
from penstock.log.partition_log import PartitionLog
from penstock.node.metrics.registry import Counter, Gauge, Group, Registry


class CleanerMetrics:
    def __init__(self, registry: Registry, now_ms: Callable[[], int], uncleanable: Collection[PartitionLog]) -> None:
        self.deaths = 0
        self.delay_ms = 0
        self.dirtiest_ratio = 0.0
        self._looked_ms = now_ms()
        self._round_ms = 0
        self._last: Summary | None = None
        self._cleaned_ms: dict[PartitionLog, int] = {}
        gauge, of_all = partial(Gauge, Group.CLEANER), partial(Gauge, Group.CLEANER_MANAGER)
        registry.add(
            gauge("cleaner-recopy-percent", "What the last round wrote of what it read", self._recopied, "percent"),
            gauge("max-clean-time-secs", "How long it took", lambda: self._round_ms // 1000, "seconds"),
            gauge("max-buffer-utilization-percent", "How full its table of keys was", self._used, "percent"),
            gauge("max-compaction-delay-secs", "How late a log is", lambda: self.delay_ms // 1000, "seconds"),
            Counter(Group.CLEANER, "DeadThreadCount", "Processes that died over a round", lambda: self.deaths),
            of_all("max-dirty-percent", "Of the dirtiest log", lambda: int(100 * self.dirtiest_ratio), "percent"),
            of_all("time-since-last-run-ms", "Of a look", lambda: now_ms() - self._looked_ms, "milliseconds"),
            of_all("uncleanable-partitions-count", "Logs that are passed by", lambda: len(uncleanable)),
            of_all("uncleanable-bytes", "Their size", lambda: _size(uncleanable), "bytes"),
        )

    def begin_look(self, now_ms: int) -> None:
        self._looked_ms = now_ms
        self.delay_ms = 0
        for log in [log for log in self._cleaned_ms if log.is_deleted]:
            del self._cleaned_ms[log]

    def note_round(self, log: PartitionLog, summary: Summary, began_ms: int, now_ms: int) -> None:
        self._last = summary
        self._round_ms = now_ms - began_ms
        self._cleaned_ms[log] = now_ms

    def cleaned_ms(self, log: PartitionLog) -> int:
        """-1 if the log was not compacted since the start of the node."""
        return self._cleaned_ms.get(log, -1)

    def _recopied(self) -> int:
        return 0 if self._last is None else _percent(self._last.bytes_written, self._last.bytes_read)

    def _used(self) -> int:
        return 0 if self._last is None else _percent(self._last.keys, self._last.capacity)


def _percent(part: int, whole: int) -> int:
    return int(100 * (part / whole)) if whole else 0


def _size(logs: Collection[PartitionLog]) -> int:
    return sum(log.size_bytes for log in logs if log.is_loaded)
