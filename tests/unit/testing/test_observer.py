"""What an observer of a simulated node tells of each event, and what it says of a node that it looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.log.logs import batch

from penstock.protocol.batch import read_header, set_place
from penstock.testing.simulator import observer
from penstock.testing.simulator.observer import Observer


class Seen:
    """A node of a controller, which looks as the test says, and all that is told of it."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.now_s = 0.0
        self.state = SimpleNamespace(balancer=SimpleNamespace(move=None))
        ledger = SimpleNamespace(
            leader_moves=SimpleNamespace(
                look=lambda state, now_s: self.told.append(("moves", state is self.state, now_s)),
                applied=self._telling("moved to"),
            ),
            agreement=SimpleNamespace(
                **{name: self._telling(name) for name in ("in_epoch", "leads", "controls", "applied", "log")}
            ),
            violated=self._telling("violated"),
            look_at_recoveries=self._telling("recoveries"),
        )
        trace = SimpleNamespace(now=lambda: self.now_s, note=self._telling("note"))
        plan = SimpleNamespace(name="node4", node_id=4)
        self.observer = Observer(cast("Any", plan), cast("Any", ledger), cast("Any", trace))
        self.leads_epoch = -2
        self.quorum = SimpleNamespace(
            epoch=3,
            leader_id=5,
            role_name="follower",
            high_watermark=7,
            is_running=True,
            _is_persisting=False,
            is_leader=lambda epoch: epoch == self.leads_epoch,
        )
        self.controller = SimpleNamespace(is_active=False, epoch=3, _controller=None)
        self.why_unusable: str | None = None
        roots = SimpleNamespace(why_unusable=lambda: self.why_unusable)
        self.image = SimpleNamespace(offset=20, applied_to=self._telling("image to"), become=self._telling("become"))
        self.parts: Any = SimpleNamespace(
            quorum=self.quorum,
            controller=self.controller,
            context=SimpleNamespace(image=self.image, directories=SimpleNamespace(roots=roots)),
        )
        self.process: Any = SimpleNamespace(watch=None)

    def _telling(self, what: str) -> Any:
        return lambda *words: self.told.append((what, *words))

    def begin(self) -> None:
        self.observer.begun(self.process, self.parts)

    def look(self, **changes: Any) -> list[Any]:
        """What an event tells, after which the quorum looks like this."""
        vars(self.quorum).update(changes)
        self.told.clear()
        self.process.watch()
        return list(self.told)


FIRST = [("in_epoch", "node4", 3), ("note", "node4", "epoch 3, leader 5, follower")]


def test_what_has_not_changed_is_not_told_again() -> None:
    seen = Seen()
    seen.begin()
    assert seen.look() == FIRST
    assert seen.look() == []
    assert seen.look(leader_id=6) == [("note", "node4", "epoch 3, leader 6, follower")]
    assert seen.look(epoch=4) == [("in_epoch", "node4", 4), ("note", "node4", "epoch 4, leader 6, follower")]
    seen.begin()
    assert seen.look() == [("in_epoch", "node4", 4), ("note", "node4", "epoch 4, leader 6, follower")]


@pytest.mark.parametrize("change", [{"is_running": False}, {"_is_persisting": True}])
def test_an_epoch_counts_when_it_is_written(change: dict[str, bool]) -> None:
    seen = Seen()
    seen.begin()
    assert seen.look(**change) == FIRST[1:]
    assert seen.look(**change) == []
    assert seen.look(is_running=True, _is_persisting=False) == FIRST[:1]


def test_who_leads_is_told_once_for_each_epoch() -> None:
    seen = Seen()
    assert not seen.observer.leads, "it has not begun"
    seen.begin()
    assert not seen.observer.leads
    assert seen.look() == FIRST
    seen.leads_epoch = 4
    assert not seen.observer.leads, "as far as it was seen"
    leads = [
        ("in_epoch", "node4", 4),
        ("leads", "node4", 4),
        ("note", "node4", "epoch 4, leader 4, leader"),
    ]
    assert seen.look(epoch=4, leader_id=4, role_name="leader") == leads
    assert seen.observer.leads
    assert seen.look() == []
    seen.observer.ended()
    assert not seen.observer.leads


def test_a_high_watermark_never_goes_back_while_a_process_lives() -> None:
    seen = Seen()
    seen.begin()
    assert seen.look() == FIRST
    back = "node4: its high watermark was {} and is {}"
    assert seen.look(high_watermark=6) == [("violated", back.format(7, 6))]
    assert seen.look(high_watermark=6) == []
    assert seen.look(high_watermark=9) == []
    assert seen.look(high_watermark=8) == [("violated", back.format(9, 8))]
    seen.begin()
    assert not [one for one in seen.look(high_watermark=0) if one[0] == "violated"]


def test_since_when_it_controls() -> None:
    seen = Seen()
    seen.begin()
    seen.look()
    assert seen.observer.controls_since is None
    seen.now_s, seen.controller.is_active, seen.controller.epoch = 1.5, True, 8
    assert seen.look() == [("controls", "node4", 8), ("note", "node4", "controls the cluster")]
    seen.now_s = 2.5
    assert seen.look() == []
    assert seen.observer.controls_since == 1.5
    seen.observer.went_on()
    assert seen.observer.controls_since == 2.5
    seen.controller.is_active = False
    assert seen.look() == [("note", "node4", "controls the cluster no longer")]
    seen.observer.went_on()
    assert seen.observer.controls_since is None
    seen.controller.is_active = True
    seen.look()
    seen.parts.controller = None
    assert seen.look() == [("note", "node4", "controls the cluster no longer")]
    assert seen.look() == []


def test_moves_of_leads_are_looked_at_while_there_is_one() -> None:
    seen = Seen()
    seen.begin()
    seen.look()
    seen.controller._controller = SimpleNamespace(state=seen.state)
    assert seen.look() == []
    seen.state.balancer.move, seen.now_s = "one", 4.0
    assert seen.look() == [("moves", True, 4.0)]
    seen.controller._controller = None
    assert seen.look() == []


def test_what_else_looks_at_events_is_asked_first() -> None:
    seen = Seen()
    seen.begin()
    seen.observer.on_event = lambda: seen.told.append("event")
    assert seen.look() == ["event", *FIRST]


def test_an_image_is_looked_at_after_each_of_its_steps() -> None:
    seen = Seen()
    seen.begin()
    assert seen.observer.image is cast("Any", seen.image)
    after = [("applied", "node4", seen.image), ("recoveries",), ("moved to", 4, 20)]
    seen.image.applied_to(12)
    assert seen.told == [("image to", 12), *after]
    seen.told.clear()
    seen.image.become("other")
    assert seen.told == [("become", "other"), *after]


def test_a_node_without_its_metadata_has_failed() -> None:
    seen = Seen()
    seen.why_unusable = "the disk is gone"
    assert not seen.observer.has_failed
    seen.begin()
    assert seen.observer.has_failed
    seen.why_unusable = None
    assert not seen.observer.has_failed
    seen.observer.controls_since = 3.0
    seen.why_unusable = "the disk is gone"
    seen.observer.ended()
    assert not seen.observer.has_failed
    assert seen.observer.controls_since is None


class Log:
    """Batches of one, two and three records."""

    def __init__(self, pieces: bool) -> None:
        self.start_offset, self.end_offset, self.pieces = 4, 10, pieces
        self.reads: list[tuple[int, int]] = []
        self.batches: dict[int, bytes] = {}
        for offset, count in ((4, 1), (5, 2), (7, 3)):
            data = batch(count)
            set_place(data, read_header(data), offset, 6)
            self.batches[offset] = bytes(data)

    def read(self, offset: int, max_bytes: int) -> bytes:
        self.reads.append((offset, max_bytes))
        found = [data for at, data in self.batches.items() if at >= offset]
        return b"".join(found[:1] if self.pieces else found)


@pytest.mark.parametrize("pieces", [False, True])
def test_the_log_of_metadata_is_compared_batch_by_batch(pieces: bool) -> None:
    seen, log = Seen(), Log(pieces)
    seen.observer.check_log()
    assert seen.told == [], "it has not begun"
    seen.begin()
    seen.quorum._log = log
    seen.observer.check_log()
    ((what, name, found),) = seen.told
    assert (what, name) == ("log", "node4")
    expected = [(at, 6, read_header(data).crc) for at, data in log.batches.items()]
    assert list(found) == expected
    most = observer.READ_BYTES
    assert log.reads == ([(4, most), (5, most), (7, most)] if pieces else [(4, most)])
