"""A client speaks with nodes on virtual time: a request of any API in a line, and all that the answer says.

`CreateTopics@7(topics=[dict(name="t", num_partitions=1)])` asks node 1 in version 7; without one, in the newest that it
serves. `2: …` asks node 2. In `@*` all versions are asked: those with the same answer share a line. `x = it.member_id`
keeps a field of the last answer; from then on the text shows `x` for it, if it is long. What the clock says is `now`,
an id that has no name is `id`. What is answered late has the time before it. Behind `anew` connections are
others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from uuid import UUID

from tests.golden.shown import fields
from tests.simulation.whole_nodes.quota_world import World

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.protocol.codec import encode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.protocol.requests.api import ApiKey, OwnApiKey, api_of
from penstock.protocol.schema import Message
from penstock.testing.simulator.loop import EPOCH_MS, Process

DAY_MS = 86_400_000
LONG = 8
"""Characters that stand for nothing else."""
REQUEST = re.compile(r"(?:(\d): )?(\w+)(?:@(\d+|\*))?(\(.*\))")
NUMBER = re.compile(r"(?<![\w.-])\d{13}(?![\w.])")
ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
APIS = {api_of(key).name: api_of(key) for keys in (ApiKey, OwnApiKey) for key in keys}


def batch(*values: str, **options: Any) -> bytes:
    """A batch of records with these values; `k=v` has a key."""
    pairs = [value.rpartition("=") for value in values]
    records = [Record(key=key.encode() if mark else None, value=value.encode()) for key, mark, value in pairs]
    return bytes(encode_batch(records, **options))


def subscription(topics: list[str]) -> bytes:
    """The metadata of a consumer of the classic protocol."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=topics), 0)


class NodeLecture:
    def __init__(self, nodes: int, **settings: str) -> None:
        self.world = World({name.replace("_", "."): value for name, value in settings.items()}, nodes)
        self._client = Process("client")
        self._connections: dict[int, Connection] = {}
        self._names: dict[str, Any] = {
            "batch": batch,
            "subscription": subscription,
            "UUID": UUID,
            "now": EPOCH_MS,
            "it": None,
        }
        self._shown: dict[str, str] = {}
        self._run(self._start())

    @property
    def it(self) -> Any:
        """The last answer."""
        return self._names["it"]

    def value(self, name: str) -> Any:
        """What was kept by that name."""
        return self._names[name]

    def _run(self, work: Any) -> Any:
        async def in_process() -> Any:
            return await self._client.spawn(self.world.loop, work)

        return self.world.loop.run_until_complete(in_process())

    async def _start(self) -> None:
        await asyncio.gather(*(machine.start() for machine in self.world.machines))

    def end(self) -> None:
        for machine in self.world.machines:
            assert machine.process is not None
            machine.process.kill()
        self.world.loop.close()
        assert self.world.ledger.violations + self.world.loop.failures == []

    def handle(self, line: str) -> Iterable[str]:
        name, mark, value = line.partition(" = ")
        if mark and name.isidentifier():
            self._names[name] = eval(value, {"it": self.it})
            if len(text := str(self._names[name])) >= LONG:
                self._shown[text] = name
        elif line.startswith("wait "):
            self._run(asyncio.sleep(int(line.split()[1]) / 1000))
        elif line == "anew":
            self._run(self._close())
        else:
            yield from self._run(self._asked(line))

    async def _close(self) -> None:
        """The next request has another connection."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _asked(self, line: str) -> list[str]:
        found = REQUEST.fullmatch(line)
        assert found is not None, line
        node, name, version, given = found.groups()
        api = APIS[name]
        request = _made(api.request_class, eval(f"dict{given}", self._names))
        if version == "*":
            each = [(one, await self._answer(int(node or 1), request, one)) for one in api.versions]
            return [_of_versions([it[0] for it in same], text) for text, same in _alike(each)]
        return [await self._answer(int(node or 1), request, None if version is None else int(version))]

    async def _answer(self, node: int, request: Message, version: int | None) -> str:
        if node not in self._connections:
            self._connections[node] = await self.world.connect("raw", self.world.machines[node - 1])
        connection = self._connections[node]
        api = APIS[type(request).__name__.removesuffix("Request")]
        begun_s = self.world.loop.time()
        try:
            answer = await connection.answered(connection.submit(request, api.response_class, newest=version))
        except ClientError as error:
            return f"{type(error).__name__}: {error}"
        self._names["it"] = answer
        took = round((self.world.loop.time() - begun_s) * 10)
        return (f"after {took / 10} s: " if took else "") + self._said(answer)

    def _said(self, answer: Message) -> str:
        text = fields(_readable(answer))
        for value, name in sorted(self._shown.items(), key=lambda it: -len(it[0])):
            text = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", name, text)
        text = NUMBER.sub(lambda it: "now" if EPOCH_MS <= int(it[0]) < EPOCH_MS + DAY_MS else it[0], text)
        return ID.sub("id", text)


def _made(cls: type[Message], given: dict[str, Any]) -> Message:
    """With messages where `given` has dictionaries."""

    def value(name: str, it: Any) -> Any:
        kind = cls.__fields__[name].kind
        if isinstance(kind, str) or it is None:
            return it
        return [_made(kind, one) for one in it] if isinstance(it, list) else _made(kind, it)

    return cls(**{name: value(name, it) for name, it in given.items()})


def _readable(message: Message) -> Message:
    """With the records of batches in place of their bytes."""
    changed: dict[str, object] = {}
    for name in type(message).__fields__:
        value = getattr(message, name)
        if isinstance(value, Message):
            changed[name] = _readable(value)
        elif isinstance(value, list):
            changed[name] = [_readable(one) if isinstance(one, Message) else one for one in value]
        elif name == "records" and value:
            changed[name] = _records(value)
    return message.replace(**changed)


def _records(found: Any) -> str:
    batches = []
    for position, header in iterate_batches(found):
        records = list(iterate_records(found, position, header))
        values = [f"{it.key!r}={it.value!r}" if it.key else repr(it.value) for it in records]
        batches.append(f"{header.base_offset} of epoch {header.partition_leader_epoch}: {' '.join(values)}")
    return "; ".join(batches)


def _alike(each: list[tuple[int, str]]) -> list[tuple[str, list[tuple[int, str]]]]:
    return [(text, list(same)) for text, same in groupby(each, key=lambda it: it[1])]


def _of_versions(versions: list[int], text: str) -> str:
    return f"{versions[0]}-{versions[-1]}: {text}" if len(versions) > 1 else f"{versions[0]}: {text}"
