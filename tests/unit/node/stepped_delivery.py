"""A delivery of records that wait of which a test asks single steps: what they call is noted, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

NOW_MS = 100_000


class Told(list[Any]):
    """What was called, in order; `does` makes a callable that notes itself and answers."""

    def does(self, name: str, answer: Any = None) -> Callable[..., Any]:
        def do(*given: Any, **named: Any) -> Any:
            self.append((name, *given, *named.values()))
            return answer

        return do

    @staticmethod
    def fails(error: Exception) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        return fail


def delivery(told: Told, **changes: Any) -> Any:
    """One that has nothing to do, but for these changes: its log is [0, 100), all of which it has read."""
    fields: dict[str, Any] = {
        "end": 100, "start": 0, "next_offset": 100, "high_watermark": 100, "position": 100, "heard_from": 0,
        "due": None, "oldest": None,
    }  # fmt: skip
    attributes = {name: changes.pop(name) for name in list(changes) if name not in fields}
    one = SimpleNamespace(**(fields | changes))
    log = SimpleNamespace(log_end_offset=one.end, log_start_offset=one.start, segments=[], config=None)
    log.health = SimpleNamespace(reporting=lambda what: nullcontext())
    waiting = SimpleNamespace(next_due_ms=one.due, oldest_place=one.oldest, place_of=lambda at: at)
    partition = SimpleNamespace(log=log, next_offset=one.next_offset, high_watermark=one.high_watermark)
    partition.begin_at, partition.on_log_start_moved = told.does("begin at"), told.does("moved")
    made = SimpleNamespace(
        records=SimpleNamespace(waiting=waiting, position=one.position, unsettled_from=None),
        _partition=partition, _heard_from=one.heard_from, _appended=deque[int](), _ahead=deque[Any](),
        _deletes_before=0, _begins_at=0, _carry_before=0, _cleared=0, _carried=(-1, 0), _needed_from=0,
        _emptied=(0, 0), _carried_ms=NOW_MS, _failure="", _wait=None, is_over=False, needed_from=100,
        _now_ms=lambda: NOW_MS, _alarm=SimpleNamespace(set=told.does("alarm"), end=told.does("no alarm")),
        _growth=SimpleNamespace(add=told.does("wait", "a wait"), cancel=told.does("cancel")),
        _leader=SimpleNamespace(deletions=SimpleNamespace(take_all=lambda: [told.does("told of deletions")])),
        _turns=SimpleNamespace(discard=told.does("no turn")),
    )  # fmt: skip
    for name in ("_delete", "stop", "_wait_for_growth", "_has_grown", "_ring"):
        setattr(made, name, told.does(name))
    vars(made).update(attributes)
    return made
