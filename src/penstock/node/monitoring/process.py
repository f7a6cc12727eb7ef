"""The process and its disks, under the names that all programs have for Prometheus."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Final

from penstock.log.directories.directory import LogDirectories
from penstock.node.metrics.registry import Gauge, Group, Labels, Registry
from penstock.node.serving.slices import Steps

PROC: Final = "/proc/self"
LEAST_S: Final = 1.0
"""The share of time without work is told of so long a time at least."""


class ProcessSurvey:
    """Looks in a thread: a network's file system may let one wait. What cannot be told is left out."""

    def __init__(self, directories: LogDirectories, began_s: float) -> None:
        self._directories = directories
        self._began_s = began_s
        self._figures: dict[str, float] = {}
        self._space: dict[str, tuple[int, int]] = {}
        self._last, self._idle = (time.monotonic(), time.process_time()), 1.0

    def _note_idle(self) -> None:
        """One event loop does the work of Kafka's two kinds of threads, and idles as much as the process has no CPU."""
        now = time.monotonic(), time.process_time()
        wall_s, cpu_s = (new - old for new, old in zip(now, self._last, strict=True))
        if wall_s >= LEAST_S:
            self._last, self._idle = now, min(max(1 - cpu_s / wall_s, 0.0), 1.0)

    def steps(self) -> Steps[None]:
        self._note_idle()
        roots, disk = self._directories.roots, self._directories.open_files.disk
        self._figures = yield _figures
        paths = [directory.path for directory in roots.online]

        def spaces() -> dict[str, tuple[int, int]]:
            found = {}
            for path in paths:
                try:
                    found[path] = disk.space(path)
                except OSError:
                    continue
            return found

        self._space = yield spaces

    def register(self, registry: Registry) -> None:
        for name, what in (
            ("process_cpu_seconds_total", "CPU that the process has used, in seconds"),
            ("process_resident_memory_bytes", "Memory that it has in RAM"),
            ("process_open_fds", "Files and sockets that it has open"),
            ("kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes that it has read from disks"),
            ("kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes that it has written to disks"),
        ):
            registry.add(Gauge(Group.PLAIN, name, what, partial(self._figure, name)))
        labels, idle = ("directory",), "The share of time in which the node has nothing to do"
        registry.add(
            Gauge(Group.HANDLERS, "RequestHandlerAvgIdlePercent", idle, lambda: self._idle),
            Gauge(Group.PROCESSORS, "NetworkProcessorAvgIdlePercent", idle, lambda: self._idle),
            Gauge(Group.PLAIN, "process_start_time_seconds", "When the node began, since 1970", lambda: self._began_s),
            Gauge(Group.NODE, "LogDirectorySizeBytes", "Its file system", partial(self._of_space, 0), "bytes", labels),
            Gauge(Group.NODE, "LogDirectoryFreeBytes", "What it has free", partial(self._of_space, 1), "bytes", labels),
        )

    def _figure(self, name: str) -> dict[Labels, float]:
        return {(): self._figures[name]} if name in self._figures else {}

    def _of_space(self, which: int) -> dict[Labels, float]:
        return {(path,): space[which] for path, space in self._space.items()}


def _figures() -> dict[str, float]:
    found: dict[str, float] = {"process_cpu_seconds_total": time.process_time()}
    try:
        found["process_resident_memory_bytes"] = int(_read("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        found["process_open_fds"] = len(os.listdir(f"{PROC}/fd"))
        lines = dict(line.split(": ") for line in _read("io").splitlines())
        found["kafka_server_kafkaserver_linux_disk_read_bytes"] = int(lines["read_bytes"])
        found["kafka_server_kafkaserver_linux_disk_write_bytes"] = int(lines["write_bytes"])
    except (OSError, ValueError, KeyError, IndexError):
        pass
    return found


def _read(name: str) -> str:
    with open(f"{PROC}/{name}", encoding="ascii") as file:
        return file.read()
