"""When `penstock consume --share` ends, and what it does with records beyond what is wanted."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.cli.records import share
from penstock.cli.records.share import SETTINGS, Sharing, take_shared
from penstock.client.share.acknowledgements import AcknowledgeType


class FakeConsumer:
    """Each poll takes so long and gives so many records."""

    def __init__(self, polls: Sequence[tuple[float, int]]) -> None:
        self.done: list[Any] = []
        self.now_s = 0.0
        self.polls = list(polls)
        self._count = 0

    def __call__(self, servers: str, settings: object) -> "FakeConsumer":
        self.done.append(servers)
        return self

    async def __aenter__(self) -> "FakeConsumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.done.append("close")

    async def subscribe(self, topics: list[str]) -> None:
        self.done.append(topics)

    async def poll(self, wait_ms: int) -> list[Any]:
        self.done.append(wait_ms)
        seconds, count = self.polls.pop(0)
        self.now_s += seconds
        first, self._count = self._count, self._count + count
        return [SimpleNamespace(offset=number) for number in range(first, self._count)]

    def acknowledge(self, record: Any, kind: AcknowledgeType) -> None:
        self.done.append((record.offset, kind.name))


@pytest.mark.parametrize(
    ("polls", "most", "timeout_ms", "steps"),
    [
        ([(0.0, 2), (0.0, 3)], 3, None, [1_000, (0, "REJECT"), (1, "REJECT"), 1_000, (2, "REJECT")]),
        ([(0.0, 5)], 1, None, [1_000, (0, "REJECT")]),
        ([(1.0, 0), (1.0, 0)], None, 2_000, [1_000, 1_000]),
        ([(1.0, 0), (0.5, 1), (1.0, 0), (1.0, 0)], None, 2_000, [1_000, 1_000, (0, "REJECT"), 1_000, 1_000]),
        ([(0.3, 0)], None, 300, [300]),
        ([(9.0, 1), (0.3, 0)], 5, 300, [300, (0, "REJECT"), 300]),
    ],
)
async def test_it_ends_with_enough_or_when_nothing_comes(
    polls: list[tuple[float, int]],
    most: int | None,
    timeout_ms: int | None,
    steps: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = FakeConsumer(polls)
    clock = SimpleNamespace(time=lambda: consumer.now_s)
    monkeypatch.setattr(share, "ShareConsumer", consumer)
    monkeypatch.setattr(share, "asyncio", stand_in(asyncio, get_running_loop=lambda: clock))
    shown: list[int] = []
    sharing = Sharing(share=True, accept=False, release=False, reject=True, reject_message_on_error=False)
    limits = {"max_messages": most, "timeout_ms": timeout_ms}
    await take_shared(
        "h:1", SETTINGS, "t", lambda record: shown.append(record.offset), sharing, **limits, poll_ms=1_000
    )
    assert consumer.done == ["h:1", ["t"], *steps, "close"]
    assert shown == [step[0] for step in steps if isinstance(step, tuple)]
    assert consumer.polls == []
