"""A producer of small requests beside others, whose round trips are kept with their times."""

from __future__ import annotations

import time
from typing import Final

from bench.child import Background
from bench.measure import percentile
from bench.topics import create_topic
from bench.wire import Wire, produce_frame

TOPIC: Final = "quiet"
PAUSE_S: Final = 0.002


class Neighbour(Background):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._trips: list[tuple[float, float]] = []
        """When each ended (perf_counter), and how long it took in ms."""

    def run(self) -> None:
        frame = produce_frame(TOPIC, b"x" * 100)
        with Wire(self._address) as wire:
            while not self.is_over.is_set():
                time.sleep(PAUSE_S)
                took_ms = wire.round_trip_ms(frame)
                self._trips.append((time.perf_counter(), took_ms))

    def p99_ms(self, begin: float, end: float) -> float:
        """Of those that ended between two moments."""
        return percentile([took_ms for at, took_ms in self._trips if begin <= at <= end], 99)


def make_topic(address: str) -> None:
    create_topic(address, TOPIC)
