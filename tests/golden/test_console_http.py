"""The transcript of the console over HTTP: who is heard, what is refused, and with which headers it answers.

Another one has records: which are read, from which offsets, and what a page or a file gets of them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.golden.console_http import PLAIN, HttpLecture
from tests.golden.console_log import Log

from penstock.console import records
from penstock.console.serving import lines, reading
from penstock.console.serving.server import ConsoleServer

Transcript = Callable[[str, Callable[[str], Iterable[object]]], None]


def test_http(transcript: Transcript, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")

    def audited() -> list[str]:
        said = [f"audit: {one.getMessage()}" for one in caplog.records if one.name == "penstock.console.audit"]
        caplog.clear()
        return said

    with asyncio.Runner() as loop, HttpLecture(loop, audited) as lecture:
        transcript("console_http.txt", lecture.handle)


def test_every_path_is_asked() -> None:
    text = (Path(__file__).parent / "console_http.txt").read_text()
    server: Any = ConsoleServer(PLAIN)
    paths = {route.path.partition("{")[0] for route in server._routes()}
    assert {path for path in paths if not re.search(rf" {path}", text)} == set()


def test_records(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(records, "Consumer", log.consumer)
    monkeypatch.setattr(records, "list_offsets_that_can_be_had", log.offsets)
    for module, name, value in (
        (records, "POLLED", 3),
        (records, "QUIET", 4),
        (records, "MOST_READ", 30),
        (records, "LAST_READ", 10),
        (records, "MAX_ROWS", 4),
        (records, "MAX_HEADERS", 2),
        (records, "HEADER_BYTES", 5),
        (records, "MOST_PARTITIONS", 3),
        (reading, "MAX_TAILS", 1),
        (reading, "MAX_EXPORTS", 1),
        (reading, "PART_BYTES", 4),
        (lines, "PIECE_BYTES", 6),
    ):
        monkeypatch.setattr(module, name, value)
    with asyncio.Runner() as loop, HttpLecture(loop, log.heard) as lecture:
        open_to_all: Any = lecture.servers["open"]
        open_to_all._watched.topic = log.topic

        def handle(line: str) -> Iterable[str]:
            if line in ("busy", "idle"):
                open_to_all._reading.tails = open_to_all._reading._exports = int(line == "busy")
                return []
            if line == "counted":
                return [f"{open_to_all._reading.tails} tails, {open_to_all._reading._exports} exports"]
            if line in ("hurried", "patient"):
                monkeypatch.setattr(records, "LONGEST_S", 0.0 if line == "hurried" else 600.0)
                return []
            if line == "who read has logged out":
                open_to_all._reading._is_in = lambda _: False
                return []
            return lecture.handle(f"open GET /api/{line}")

        transcript("console_records.txt", handle)
