"""A request that another worker has to do comes there as it was, in its user's name, and without a password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest
from yarl import URL

from penstock.work.connect.distributed.settings import parse_settings
from penstock.work.connect.rest import server as rest_server
from penstock.work.connect.rest.basic import BASIC, CLASSES_KEY, FILE_KEY, header_of
from penstock.work.connect.rest.errors import ElsewhereError
from penstock.work.connect.rest.server import RestServer
from penstock.work.connect.runtime.session_keys import SessionKey, new_key

if TYPE_CHECKING:
    from penstock.work.connect.runtime.records import Target

KEY = new_key(b"k" * 32, "HmacSHA256", 1)
NAMES = ("a%40b", "it%27s", "%2E%2E", "%2e", "a%2Fb", "a|b", "[a]", "a%25b", "a+b", "%7E", "a;b", "%C3%A4")


class Twins:
    """Two workers: the first one hands on what the second one does. `done`: names of connectors that were paused."""

    def __init__(self, tmp_path: Path, keys: tuple[SessionKey, ...]) -> None:
        self._config = {
            "bootstrap.servers": "x:1",
            "group.id": "g",
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "listeners": "http://127.0.0.1:0",
            CLASSES_KEY: BASIC,
            FILE_KEY: str(tmp_path / "users"),
            **{f"{store}.storage.topic": store for store in ("config", "offset", "status")},
        }
        (tmp_path / "users").write_text("ada=sesame\n")
        self._keys = keys
        self.done: list[str] = []
        self.urls: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[..., Any]]:
        async with AsyncExitStack() as parts:
            for set_target in (self._elsewhere, self._pause):
                server = RestServer(parse_settings(self._config))
                await server.start()
                parts.push_async_callback(server.stop)
                worker = SimpleNamespace(
                    state=SimpleNamespace(session_keys=self._keys), config_log=SimpleNamespace(read_to_end=_nothing)
                )
                served = SimpleNamespace(herder=SimpleNamespace(worker=worker, set_target=set_target))
                server.served = cast("Any", served)
                self.urls += server.urls
            session = await parts.enter_async_context(aiohttp.ClientSession())

            async def pause(name: str, **more: Any) -> int:
                where = URL(f"{self.urls[0]}/connectors/{name}/pause?x=%7E+%20;", encoded=True)
                async with session.put(where, headers={"Authorization": header_of("ada:sesame")}, **more) as answer:
                    return answer.status

            yield pause

    async def _elsewhere(self, name: str, target: Target) -> None:
        raise ElsewhereError(self.urls[1])

    async def _pause(self, name: str, target: Target) -> None:
        self.done.append(name)


async def _nothing() -> None: ...


async def test_a_path_is_handed_on_as_it_stands(tmp_path: Path) -> None:
    """Another way to write it would be another path, which is not the one that is signed."""
    twins = Twins(tmp_path, (KEY,))
    async with twins.running() as pause:
        assert [await pause(name) for name in NAMES] == [202] * len(NAMES)
    assert twins.done == ["a@b", "it's", "..", ".", "a/b", "a|b", "[a]", "a%b", "a+b", "~", "a;b", "ä"]


async def test_without_a_key_nothing_is_handed_on(tmp_path: Path) -> None:
    """Whoever is in the group says where it listens: a password would go there."""
    twins = Twins(tmp_path, ())
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    stranger = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with twins.running() as pause, stranger:
        twins.urls[1] = f"http://127.0.0.1:{stranger.sockets[0].getsockname()[1]}"
        assert await pause("c") == 503
    assert heard == []


async def test_a_body_that_does_not_come_is_told_by_who_would_hand_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_server, "BODY_LIMIT_S", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    twins = Twins(tmp_path, (KEY,))
    async with twins.running() as pause:
        assert await pause("c", data=slow()) == 408
    assert twins.done == []
