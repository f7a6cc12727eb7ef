"""The transcript of a hand-over, as the leader that goes sees it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from penstock.leadership.transfer import Answer, Effect, Limits, Transfer

SELF, SUCCESSOR = 1, 2


class TransferLecture:
    """Broker 1 leads in epoch 7 and hands over to broker 2. `at` is the time, in milliseconds."""

    def handle(self, line: str) -> Iterable[str]:
        command, *words = line.split()
        return list(getattr(self, f"_{command}")(*words))

    def _begin(self, end: str, with_what: str = "") -> Iterator[str]:
        self.now_ms = 0
        stand_ms = int(with_what.removeprefix("stand=")) if "stand" in with_what else None
        limits = Limits() if stand_ms is None else Limits(stand_ms=stand_ms, hold_ms=1_500)
        self.transfer = Transfer(SUCCESSOR, 7, int(end), limits, 0, seals=with_what == "coordinator")
        yield self._state()

    def _at(self, now_ms: str) -> Iterator[str]:
        self.now_ms = int(now_ms)
        return self._told(self.transfer.on_time(self.now_ms))

    def _committed(self, high_watermark: str, end: str) -> Iterator[str]:
        return self._told(self.transfer.on_committed(int(high_watermark), int(end), self.now_ms))

    def _answer(self, answer: str) -> Iterator[str]:
        return self._told(self.transfer.on_answer(Answer[answer.upper()], self.now_ms))

    def _leader(self, leader: str, epoch: str) -> Iterator[str]:
        return self._told(self.transfer.on_leader(int(leader), int(epoch), is_self=int(leader) == SELF))

    def _renewed(self) -> Iterator[str]:
        return self._told(self.transfer.on_renewed())

    def _full(self) -> Iterator[str]:
        return self._told(self.transfer.on_full())

    def _forwarded(self) -> Iterator[str]:
        self.transfer.on_forwarding(self.now_ms)
        return self._told([])

    def _told(self, effects: Sequence[Effect]) -> Iterator[str]:
        yield from (effect.name for effect in effects)
        yield self._state()

    def _state(self) -> str:
        transfer = self.transfer
        words = [f"{self.now_ms}: {transfer.state.name.lower().replace('_', ' ')}"]
        if transfer.cause is not None:
            words.append(f"as {transfer.cause.name}")
        if transfer.is_silent:
            words.append("silent")
        if transfer.deadline_ms is not None:
            words.append(f"until {transfer.deadline_ms}")
        return ", ".join(words)


@pytest.mark.parametrize("name", ["transfer.txt", "transfer_by_voters.txt"])
def test_lecture(name: str, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript(name, TransferLecture().handle)
