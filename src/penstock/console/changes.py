"""Changes that a page may ask for: each a command of the command line as well, which is shown before it is done.

What destroys something asks for a name to be typed, and the server compares it.
"""

import json
import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.partitions import ElectionType
from penstock.client.admin.topics import NewTopic
from penstock.client.new_positions import bounded, offsets_at
from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.settings import ProducerSettings
from penstock.client.values import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.watched import WatchedCluster
from penstock.protocol.errors import ErrorCode
from penstock.protocol.value import Value

MOST_CHARACTERS: Final = 600_000
"""Of a value that is sent."""
TOLD: Final = (
    *("action", "topic", "group", "partition", "partitions", "replication_factor", "configs", "key_name"),
    *("value_of_key", "to", "at"),
)
"""What the audit log has of a question: nothing that records hold, and no names that a page makes up."""
MOST_TOLD: Final = 1_000
"""Characters of each."""
INT16: Final = 2**15 - 1
INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
LATEST_MS: Final = 253_402_300_799_999
"""The last moment that has a date."""
audit = logging.getLogger("penstock.console.audit")

Asked = Mapping[str, Any]


class Change(Value):
    """`name` is the parameter that has to be typed again where the change is `dangerous`."""

    command: Callable[[Asked], list[str]]
    apply: Callable[["Changes", Asked], Awaitable[str]]
    name: str
    dangerous: bool = False


class Changes:
    def __init__(self, watched: WatchedCluster, properties: Mapping[str, str]) -> None:
        self.watched = watched
        self.properties = properties

    def preview(self, asked: Asked) -> dict[str, Any]:
        """The command that does the same, and what has to be typed."""
        change = _change(asked)
        words = ["penstock", *change.command(asked), "--bootstrap-server", self.watched.bootstrap_servers]
        line = shlex.join(words)
        if asked["action"] == "produce":
            line = f"printf '%s\\n' {shlex.quote(_line(asked))} | {line}"
        return {"command": line, "dangerous": change.dangerous, "type": _text(asked, change.name)}

    async def apply(self, asked: Asked, who: str) -> dict[str, Any]:
        """What was done, in a sentence. Each try is in the audit log."""
        outcome = "failed"
        try:
            change = _change(asked)
            if change.dangerous and asked.get("typed") != _text(asked, change.name):
                raise bad_request(f"type {_text(asked, change.name)!r} to confirm")
            change.command(asked)  # which refuses what makes no sense
            done = await change.apply(self, asked)
            outcome = "done"
            self.watched.looks.forget()
            return {"done": done}
        finally:
            tell(who, outcome, asked)

    async def create_topic(self, asked: Asked) -> str:
        name = _text(asked, "topic")
        partitions = _number(asked, "partitions", -1, INT32)
        copies = _number(asked, "replication_factor", -1, INT16)
        topic = NewTopic(name=name, partitions=partitions, replication_factor=copies, configs=_pairs(asked, "configs"))
        await self.watched.admin.topics.create(topic)
        return f"topic {name} was created"

    async def delete_topic(self, asked: Asked) -> str:
        await self.watched.admin.topics.delete(_text(asked, "topic"))
        return f"topic {_text(asked, 'topic')} was deleted"

    async def alter_config(self, asked: Asked) -> str:
        """An empty value goes back to the default."""
        value = _bytes(asked, "value_of_key")
        operation = ConfigOperation.SET if value else ConfigOperation.DELETE
        change = ConfigChange(_text(asked, "key_name"), operation, value.decode() if value else None)
        await self.watched.admin.configs.alter(ResourceType.TOPIC, _text(asked, "topic"), [change])
        return f"{change.name} of {_text(asked, 'topic')} was changed"

    async def produce(self, asked: Asked) -> str:
        settings = with_properties(ProducerSettings(client_id="penstock-console", linger_ms=0), self.properties)
        headers = [(name, value.encode()) for name, value in _pairs(asked, "headers").items()]
        async with Producer(self.watched.bootstrap_servers, settings) as producer:
            await producer.cluster.topic(_text(asked, "topic"))  # one that is not there is not made
            where = await producer.send_and_wait(
                _text(asked, "topic"),
                _bytes(asked, "value"),
                key=_bytes(asked, "key"),
                headers=headers,
            )
        return f"the record is at offset {where.offset} of {where.topic}-{where.partition}"

    async def reset_offsets(self, asked: Asked) -> str:
        group, topic, to = _text(asked, "group"), _text(asked, "topic"), _text(asked, "to")
        admin = self.watched.admin
        partitions = [TopicPartition(topic, one) for one in (await self.watched.topic(topic)).partitions]
        if to in ("earliest", "latest"):
            new = await offsets_at(admin.cluster, partitions, EARLIEST if to == "earliest" else LATEST)
        elif to == "time":
            new = await offsets_at(admin.cluster, partitions, _number(asked, "at", -1, LATEST_MS))
        else:
            new = await bounded(admin.cluster, dict.fromkeys(partitions, _number(asked, "at", 0)))
        described = {row.group_id: row for row in await admin.groups.listings()}.get(group)
        if described is not None and described.state not in ("Empty", "Dead"):
            raise ConsoleError(
                HTTPStatus.CONFLICT,
                f"group {group!r} has members (its state is {described.state}): stop its consumers first",
            )
        await admin.groups.set_offsets(group, {one: OffsetAndMetadata(offset) for one, offset in new.items()})
        return f"group {group} goes on with {len(new)} partitions of {topic} at their new offsets"

    async def delete_group(self, asked: Asked) -> str:
        await self.watched.admin.groups.delete(_text(asked, "group"))
        return f"group {_text(asked, 'group')} was deleted"

    async def elect_leader(self, asked: Asked) -> str:
        partition = TopicPartition(_text(asked, "topic"), _number(asked, "partition", 0, INT32))
        outcomes = await self.watched.admin.partitions.elect_leaders(ElectionType.PREFERRED, [partition])
        outcome = outcomes.get(partition)
        if outcome is None or outcome.error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            why = "no answer" if outcome is None else outcome.message or outcome.error.name
            raise ConsoleError(HTTPStatus.CONFLICT, f"{partition} keeps its leader: {why}")
        return f"{partition} is led by its preferred replica"


def tell(who: str, outcome: str, asked: Asked) -> None:
    """A line in the audit log."""
    told = {name: _briefly(asked[name]) for name in TOLD if name in asked}
    audit.info("%s", json.dumps({"who": who, "outcome": outcome} | told))


def _briefly(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= MOST_TOLD else text[:MOST_TOLD] + "…"


def _create_words(asked: Asked) -> list[str]:
    words = ["topics", "--create", "--topic", _text(asked, "topic")]
    for name, option in (("partitions", "--partitions"), ("replication_factor", "--replication-factor")):
        words += [option, str(number)] if (number := _number(asked, name, -1)) > 0 else []
    for key, value in _pairs(asked, "configs").items():
        words += ["--config", f"{key}={value}"]
    return words


def _alter_words(asked: Asked) -> list[str]:
    key, value = _text(asked, "key_name"), (_bytes(asked, "value_of_key") or b"").decode()
    change = ["--add-config", f"{key}=[{value}]" if "," in value else f"{key}={value}"]
    if not value:
        change = ["--delete-config", key]
    return ["configs", "--alter", "--topic", _text(asked, "topic"), *change]


def _produce_words(asked: Asked) -> list[str]:
    words = ["produce", "--topic", _text(asked, "topic")]
    words += ["--property", "parse.headers=true"] if asked.get("headers") else []
    return words + (["--property", "parse.key=true"] if asked.get("key") is not None else [])


def _line(asked: Asked) -> str:
    """What `penstock produce` reads."""
    headers = ",".join(f"{name}:{value}" for name, value in _pairs(asked, "headers").items())
    parts = [headers] if headers else []
    parts += [] if asked.get("key") is None else [str(asked["key"])]
    return "\t".join([*parts, str(asked.get("value") or "")])


def _reset_words(asked: Asked) -> list[str]:
    match _text(asked, "to"):
        case "earliest" | "latest" as end:
            to = [f"--to-{end}"]
        case "offset":
            to = ["--to-offset", str(_number(asked, "at", 0))]
        case "time":
            to = ["--to-datetime", _moment(_number(asked, "at", 0, LATEST_MS))]
        case _:
            raise bad_request("to is one of earliest, latest, offset, time")
    return [
        *("groups", "--reset-offsets", "--group", _text(asked, "group"), "--topic", _text(asked, "topic"), *to),
        "--execute",
    ]


def _elect_words(asked: Asked) -> list[str]:
    where = ["--topic", _text(asked, "topic"), "--partition", str(_number(asked, "partition", 0, INT32))]
    return ["leader-election", "--election-type", "preferred", *where]


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


CHANGES: Final[dict[str, Change]] = {
    "create-topic": Change(_create_words, Changes.create_topic, "topic"),
    "delete-topic": Change(
        lambda asked: ["topics", "--delete", "--topic", _text(asked, "topic")],
        Changes.delete_topic,
        "topic",
        dangerous=True,
    ),
    "alter-config": Change(_alter_words, Changes.alter_config, "topic"),
    "produce": Change(_produce_words, Changes.produce, "topic"),
    "reset-offsets": Change(_reset_words, Changes.reset_offsets, "group", dangerous=True),
    "delete-group": Change(
        lambda asked: ["groups", "--delete", "--group", _text(asked, "group")],
        Changes.delete_group,
        "group",
        dangerous=True,
    ),
    "elect-leader": Change(_elect_words, Changes.elect_leader, "topic"),
}
"""By the names that pages use."""


def _change(asked: Asked) -> Change:
    action = asked.get("action")
    if not isinstance(action, str) or action not in CHANGES:
        raise bad_request(f"action is one of {', '.join(CHANGES)}")
    return CHANGES[action]


def _text(asked: Asked, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value or len(value) > 1_000:
        raise bad_request(f"{name} is a text of 1 to 1000 characters")
    return value


def _bytes(asked: Asked, name: str) -> bytes | None:
    value = asked.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        raise bad_request(f"{name} is a text of at most {MOST_CHARACTERS} characters")
    return value.encode()


def _number(asked: Asked, name: str, default: int, most: int = INT64) -> int:
    """As a text, so that it has all its digits."""
    value = asked.get(name)
    if value in (None, ""):
        return default
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 19 or int(value) > most:
        raise bad_request(f"{name} is a text of digits, {most} at most")
    return int(value)


def _pairs(asked: Asked, name: str) -> dict[str, str]:
    value = asked.get(name) or {}
    if not isinstance(value, dict) or len(value) > 100 or not all(isinstance(one, str) for one in value.values()):
        raise bad_request(f"{name} is an object of at most 100 texts")
    return dict(value)
