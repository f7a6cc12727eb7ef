"""The transcript of the console's views: what each page is told of a cluster that has one of everything.

A step is the view, its query as `name=value`, and moods of the cluster in brackets.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.golden.console_cluster import ShownCluster
from tests.stand_in import stand_in

from penstock.console import watched
from penstock.console.errors import ConsoleError
from penstock.console.serving.server import VIEWS
from penstock.console.views import groups
from penstock.protocol.errors import KafkaError


class ConsoleLecture:
    def __init__(self) -> None:
        self.now_s = 0.0

    def handle(self, line: str) -> Iterable[str]:
        return asyncio.run(self._asked(line))

    async def _asked(self, line: str) -> list[str]:
        asked, _, moods = line.partition(" [")
        cluster = ShownCluster(re.findall(r"[^,\]]+", moods.replace(", ", ",")))
        for cluster.seconds in (0.0, 10.0, 25.0):  # an hour is remembered of what is counted
            self.now_s = 1_000.0 + cluster.seconds
            if "refusing" not in cluster.moods:
                await cluster.watched.metrics()
                await cluster.watched.lags()
        name, *words = shlex.split(asked)
        try:
            found = await VIEWS[name](cluster.watched, dict(word.split("=", 1) for word in words))
        except ConsoleError as error:
            return [f"{error.status.value}: {error}"]
        except KafkaError as error:
            return [f"{error.code.name}: {error.message}"]
        return list(_lines(found))


def _lines(found: dict[str, Any]) -> Iterable[str]:
    """A line for each thing, and for each row of a list of objects."""
    for name, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{name}:"
            yield from (f"  {json.dumps(row)}" for row in value)
        else:
            yield f"{name}: {json.dumps(value)}"


def test_views(
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lecture = ConsoleLecture()
    monkeypatch.setattr(watched, "time", stand_in(time, time=lambda: lecture.now_s))
    monkeypatch.setattr(groups, "MAX_EPOCHS", 2)
    transcript("console.txt", lecture.handle)


def test_every_view_is_asked() -> None:
    text = (Path(__file__).parent / "console.txt").read_text()
    assert {name for name in VIEWS if not re.search(rf"^{name}( |$)", text, re.MULTILINE)} == set()
