"""What a connection hears goes on to what is within, and who takes nothing is left by the clock alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.console.serving import connections
from penstock.console.serving.connections import Connection, OneTooMany


class Within(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append(("made", transport))

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> bool | None:
        self.heard.append("end")
        return True

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(("lost", exc))


class Transport(asyncio.WriteTransport):
    def __init__(self) -> None:
        super().__init__()
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


async def test_all_is_passed_on() -> None:
    within, transport, error = Within(), Transport(), OSError()
    connection = Connection(within, 60.0)
    connection.connection_made(transport)
    connection.data_received(b"a")
    assert connection.eof_received() is True
    connection.pause_writing()
    connection.resume_writing()
    connection.pause_writing()
    connection.connection_lost(error)
    assert within.heard == [("made", transport), b"a", "end", "pause", "resume", "pause", ("lost", error)]


class Timers:
    """In the place of the event loop: what is due, and when."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Any]] = []

    def call_later(self, delay_s: float, call: Any) -> Any:
        entry = delay_s, call
        self.due.append(entry)
        return type("Handle", (), {"cancel": lambda _: self.due.remove(entry)})()


def test_patience_begins_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, transport = Timers(), Transport()
    monkeypatch.setattr(connections, "asyncio", stand_in(asyncio, get_running_loop=lambda: timers))
    connection = Connection(Within(), 60.0)
    connection.connection_made(transport)
    connection.resume_writing()
    for _ in range(2):
        connection.pause_writing()
        assert timers.due == [(60.0, transport.abort)]
        connection.resume_writing()
        assert timers.due == []
    connection.pause_writing()
    connection.connection_lost(None)
    connection.connection_lost(None)
    assert timers.due == []
    assert transport.aborted == 0


def test_one_too_many_is_closed() -> None:
    transport = Transport()
    OneTooMany().connection_made(transport)
    assert transport.aborted == 1
