"""What the clocks of a simulation may show at the latest: they go at rates of their own, and are set wrong."""

from collections.abc import Callable

from penstock.testing.simulator.loop import EPOCH_MS


class WrongClocks:
    """`moment` is the true time in seconds."""

    def __init__(self, moment: Callable[[], float]) -> None:
        self._moment = moment
        self._fastest = 1.0
        self._ahead_ms = 0

    def goes_at(self, rate: float) -> None:
        self._fastest = max(rate, self._fastest)

    def is_set(self, wrong_by_ms: int) -> None:
        self._ahead_ms = max(wrong_by_ms, self._ahead_ms)

    def latest_ms(self) -> int:
        return EPOCH_MS + self._ahead_ms + int(self._moment() * self._fastest * 1000)
