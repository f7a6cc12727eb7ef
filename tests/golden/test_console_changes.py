"""The transcript of the console's changes: the command that is shown, what the cluster is asked, and what is told.

A step is what a page asks, as JSON; what has to be typed is typed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.admin.groups import GroupListing
from penstock.client.admin.partitions import Outcome
from penstock.console import changes
from penstock.console.asked import Means
from penstock.console.changes import CHANGES, Changes
from penstock.console.errors import ConsoleError
from penstock.protocol.errors import ErrorCode

OUTCOMES = {
    "t": Outcome(ErrorCode.NONE),
    "needless": Outcome(ErrorCode.ELECTION_NOT_NEEDED),
    "refused": Outcome(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is away"),
    "silent": Outcome(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
}
STATES = ("Stable", "Empty", "Dead")


class Asked:
    """Notes each call, and gives what is to be answered."""

    def __init__(self, told: list[str], answers: Mapping[str, Callable[..., Any]], name: str = "") -> None:
        self._told, self._answers, self._name = told, answers, name

    def __getattr__(self, name: str) -> Asked:
        return Asked(self._told, self._answers, f"{self._name}.{name}".removeprefix("."))

    async def __call__(self, *given: Any, **named: Any) -> Any:
        words = [repr(one) for one in given if not isinstance(one, Asked)]
        words += [f"{name}={value!r}" for name, value in named.items()]
        self._told.append(f"{self._name}({', '.join(words)})")
        answer = self._answers.get(self._name)
        return None if answer is None else answer(*given)


def listings(*_: object) -> list[GroupListing]:
    return [GroupListing(state.lower(), "consumer", state, "classic") for state in STATES]


ANSWERS: dict[str, Callable[..., Any]] = {
    "acls.delete": lambda filters: [] if "nobody" in filters[0].principal else filters,
    "groups.listings": listings,
    "partitions.elect_leaders": lambda _, those: {one: OUTCOMES[one.topic] for one in those if one.topic in OUTCOMES},
    "users.describe": lambda users: {users[0]: ["SCRAM-SHA-512", "SCRAM-SHA-256"]},
    "topic": lambda _: SimpleNamespace(partitions={0: 0, 1: 1}),
    "offsets_at": lambda _, those, __: dict.fromkeys(those, 7),
    "bounded": lambda _, those: {one: offset + 1 for one, offset in those.items()},
    "schemas.register": lambda *_: (17, 3),
    "by_schema": lambda _, asked, part, made: (
        [b"by " + asked[f"{part}_schema"].encode()] if asked.get(f"{part}_schema") else made
    ),
    "producer.send_and_wait": lambda topic, *_: SimpleNamespace(topic=topic, partition=1, offset=99),
}


class ChangesLecture:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, audit: Callable[[], Sequence[str]]) -> None:
        self.told: list[str] = []
        self._audit = audit
        self._of = Asked(self.told, ANSWERS)
        monkeypatch.setattr(changes, "offsets_at", self._of.offsets_at)
        monkeypatch.setattr(changes, "bounded", self._of.bounded)
        monkeypatch.setattr(changes, "by_schema", self._by_schema)
        monkeypatch.setattr(changes, "Producer", self._producer)

    def _producer(self, servers: str, settings: Any) -> Asked:
        self.told.append(f"a producer at {servers}: {settings.client_id}, {settings.linger_ms} ms, {settings.acks}")
        return Sends(self.told, ANSWERS, "producer")

    async def _by_schema(self, _: Means, asked: Any, part: str, made: list[bytes | None]) -> list[bytes | None]:
        return cast("list[bytes | None]", ANSWERS["by_schema"](_, asked, part, made))

    def handle(self, line: str) -> Iterable[str]:
        return asyncio.run(self._changed(json.loads(line)))

    async def _changed(self, asked: dict[str, Any]) -> list[str]:
        self.told.clear()
        forgotten: list[str] = []
        watched = SimpleNamespace(
            bootstrap_servers="h:9092",
            admin=self._of,
            topic=self._of.topic,
            looks=SimpleNamespace(forget=lambda: forgotten.append("all is looked at anew")),
        )
        schemas = SimpleNamespace(shown="http://registry", register=self._of.schemas.register)
        made = Changes(Means(cast("Any", watched), {"acks": "1"}, cast("Any", schemas)))
        lines = []
        typed = ""
        try:
            shown = made.preview(asked)
            typed = shown["type"]
            lines.append(f"{'dangerous: ' if shown['dangerous'] else ''}{shown['command']}")
            lines += [f"type {typed}"] if typed else []
        except ConsoleError as error:
            lines.append(f"not shown: {error.status.value}: {error}")
        try:
            done = (await made.apply({"typed": typed, **asked}, "ada"))["done"]
        except ConsoleError as error:
            done = f"not done: {error.status.value}: {error}"
        return [*lines, *self.told, done, *forgotten, *self._audit()]


class Sends(Asked):
    async def __aenter__(self) -> Asked:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._told.append("it is closed")


def test_changes(
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.console.audit")

    def audited() -> list[str]:
        said = [f"audit: {record.getMessage()}" for record in caplog.records]
        caplog.clear()
        return said

    transcript("console_changes.txt", ChangesLecture(monkeypatch, audited).handle)


def test_every_change_is_asked() -> None:
    text = (Path(__file__).parent / "console_changes.txt").read_text()
    assert {name for name in CHANGES if f'"action": "{name}"' not in text} == set()
