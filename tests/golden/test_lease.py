"""The transcript of leases: one holder, one granter, and the clocks of both."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.golden.transcript import play

from penstock.leadership.lease import HELD, Granter, Holder


class LeaseLecture:
    """`at` is the true time; `clocks` says how fast those of the broker and of the controller go."""

    def __init__(self) -> None:
        self.handle(f"lease {0}")

    def handle(self, line: str) -> Iterable[str]:
        command, *words = line.split()
        return list(getattr(self, f"_{command}")(*map(float, words)))

    def _lease(self, length: float) -> Iterator[str]:
        self.now, self.broker_clock, self.controller_clock = 0.0, 1.0, 1.0
        self.holder, self.granter, self.asked = Holder(length), Granter(length), 0.0
        yield f"the controller counts {length:.0f} ms"
        yield f"the broker counts {int(length * HELD)} ms"

    def _clocks(self, broker: float, controller: float) -> Iterator[str]:
        self.broker_clock, self.controller_clock = broker, controller
        return iter(())

    def _at(self, now: float) -> Iterator[str]:
        self.now = now
        return iter(())

    def _asks(self) -> Iterator[str]:
        self.asked = self.now * self.broker_clock
        yield f"{self.now:.0f}: the broker asks"

    def _gets(self) -> Iterator[str]:
        self.granter.granted(self.now * self.controller_clock)
        yield f"{self.now:.0f}: the controller waits until {int(self.granter.until / self.controller_clock)}"

    def _answered(self) -> Iterator[str]:
        self.holder.renewed(self.asked)
        yield f"{self.now:.0f}: the broker acts until {int(self.holder.until / self.broker_clock)}"

    def _status(self) -> Iterator[str]:
        acts = "acts" if self.holder.holds(self.now * self.broker_clock) else "is silent"
        waits = "waits for nobody" if self.granter.is_over(self.now * self.controller_clock) else "waits"
        yield f"{self.now:.0f}: the broker {acts}, the controller {waits}"


def test_lecture(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("lease.txt", LeaseLecture().handle)


def test_it_tells_who_counts_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lecture = LeaseLecture()

    def counts_from_the_answer(holder: Holder, asked: float) -> None:
        holder.until = max(holder.until, lecture.now * lecture.broker_clock + holder._length)

    monkeypatch.setattr(Holder, "renewed", counts_from_the_answer)
    with pytest.raises(AssertionError, match="acts until 8975"):
        play(Path(__file__).with_name("lease.txt"), lecture.handle)
