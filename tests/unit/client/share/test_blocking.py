"""A share consumer without an event loop hands each call on to one that has one in a thread, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.client.share import blocking as module
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.blocking import BlockingShareConsumer
from penstock.client.share.records import SharedRecord
from penstock.client.values import TopicPartition

PLACE = TopicPartition("t", 0)


def record(offset: int) -> SharedRecord:
    return SharedRecord("t", 0, offset, 5, None, b"v")


class Noting:
    """In the place of a consumer: notes its calls, all of which are in one thread."""

    log: list[Any]
    fails = False

    def __init__(self, *what: Any) -> None:
        type(self).log = [what]
        self.subscription = ["t"]
        self.acquisition_lock_timeout_ms = 7
        self.threads = {threading.current_thread().name}

    def __getattr__(self, name: str) -> Any:
        if name in ("acknowledge", "acknowledge_offset", "commit_async", "set_acknowledgement_commit_callback"):
            return lambda *what, **more: self._note(name, *what, **more)

        async def called(*what: Any, **more: Any) -> Any:
            return self._note(name, *what, **more)

        return called

    def _note(self, name: str, *what: Any, **more: Any) -> Any:
        self.threads.add(threading.current_thread().name)
        self.log.append((name, *what, *more.items()))
        if self.fails:
            raise ValueError("no cluster")
        return {"poll": [record(1)], "commit_sync": {PLACE: None}}.get(name)

    async def __aiter__(self) -> AsyncIterator[SharedRecord]:
        for offset in (4, 5):
            yield record(offset)


@pytest.fixture(autouse=True)
def noting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ShareConsumer", Noting)
    monkeypatch.setattr(Noting, "fails", False)


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "share consumer"]


def test_each_call_is_handed_on() -> None:
    said = AcknowledgeType.RELEASE
    with BlockingShareConsumer("h:1") as one:
        assert threads() == ["share consumer"]
        one.subscribe(["t"])
        assert one.poll(50) == one.poll() == [record(1)]
        one.acknowledge(record(1))
        one.acknowledge(record(1), said, delay_ms=3, reason="why")
        one.acknowledge_offset(PLACE, 2, said, delay_ms=4, reason="so")
        assert one.commit_sync() == one.commit_sync(9) == {PLACE: None}
        one.commit_async()
        one.set_acknowledgement_commit_callback(None)
        one.unsubscribe()
        assert (one.subscription, one.acquisition_lock_timeout_ms) == (["t"], 7)
        inner: Any = one._consumer
        assert inner.threads == {"share consumer"}
    nothing = (("delay_ms", None), ("reason", ""))
    assert Noting.log == [
        ("h:1", None),
        ("start",),
        ("subscribe", ["t"]),
        ("poll", 50),
        ("poll", 1_000),
        ("acknowledge", record(1), AcknowledgeType.ACCEPT, *nothing),
        ("acknowledge", record(1), said, ("delay_ms", 3), ("reason", "why")),
        ("acknowledge_offset", PLACE, 2, said, ("delay_ms", 4), ("reason", "so")),
        ("commit_sync", None),
        ("commit_sync", 9),
        ("commit_async",),
        ("set_acknowledgement_commit_callback", None),
        ("unsubscribe",),
        ("close", 30_000),
    ]
    assert threads() == []


def test_a_loop_gives_one_record_after_the_other() -> None:
    one = BlockingShareConsumer("h:1")
    records = iter(one)
    assert [next(records), next(records)] == [record(4), record(5)]
    one.close(5)
    assert Noting.log[-1] == ("close", 5)


@pytest.mark.parametrize("when", ["at the start", "at the end"])
def test_one_that_fails_leaves_no_thread(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    if when == "at the start":
        monkeypatch.setattr(Noting, "fails", True)
        with pytest.raises(ValueError, match="no cluster"):
            BlockingShareConsumer("h:1")
    else:
        one = BlockingShareConsumer("h:1")
        monkeypatch.setattr(Noting, "fails", True)
        with pytest.raises(ValueError, match="no cluster"):
            one.close()
    assert threads() == []
