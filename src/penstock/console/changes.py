"""Changes that a page may ask for: each a command of the command line as well, which is shown before it is done.

What destroys something asks for a name to be typed, and the server compares it.
"""

import json
import logging
import shlex
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
from penstock.console.apart.schema import AVRO, JSON, PROTOBUF
from penstock.console.asked import INT16, INT32, Asked, Change, Means, bytes_of, number_of, one_of, pairs_of, text_of
from penstock.console.by_schema import by_schema
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.security_changes import SECURITY_CHANGES
from penstock.protocol.errors import ErrorCode

TOLD: Final = (
    *("action", "topic", "group", "partition", "partitions", "replication_factor", "configs", "key_name"),
    *("value_of_key", "to", "at", "value_schema", "key_schema"),
    *("principal", "host", "resource", "name", "pattern", "operation", "permission"),
    *("user", "mechanism", "client", "ip", "quotas", "subject", "kind", "line"),
)
"""What the audit log has of a question: nothing that records hold, no password, and no names that a page makes up."""
MOST_TOLD: Final = 1_000
"""Characters of each."""
KINDS: Final = {kind: kind for kind in (AVRO, JSON, PROTOBUF)}
COUNTS: Final = {"partitions": INT32, "replication_factor": INT16}
"""Of a new topic, with the most that there may be; the cluster decides what is not given."""
LATEST_MS: Final = 253_402_300_799_999
"""The last moment that has a date."""
audit = logging.getLogger("penstock.console.audit")


class Changes:
    def __init__(self, means: Means) -> None:
        self._means = means

    def preview(self, asked: Asked) -> dict[str, Any]:
        """The command that does the same, and what has to be typed."""
        change = _change(asked)
        servers = self._means.watched.bootstrap_servers
        words = ["penstock", *change.command(self._means, asked)]
        line = shlex.join([*words, "--bootstrap-server", servers] if change.asks_cluster else words)
        if change.reads is not None:
            line = f"printf '%s\\n' {shlex.quote(change.reads(asked))} | {line}"
        typed = text_of(asked, change.name) if change.dangerous else ""
        return {"command": line, "dangerous": change.dangerous, "type": typed}

    async def apply(self, asked: Asked, who: str) -> dict[str, Any]:
        """What was done, in a sentence. Each try is in the audit log."""
        outcome = "failed"
        try:
            change = _change(asked)
            if change.dangerous and asked.get("typed") != text_of(asked, change.name):
                raise bad_request(f"type {text_of(asked, change.name)!r} to confirm")
            change.command(self._means, asked)  # which refuses what makes no sense
            done = await change.apply(self._means, asked)
            outcome = "done"
            self._means.watched.looks.forget()
            return {"done": done}
        finally:
            tell(who, outcome, asked)


def tell(who: str, outcome: str, asked: Asked) -> None:
    """A line in the audit log."""
    told = {name: _briefly(asked[name]) for name in TOLD if name in asked}
    audit.info("%s", json.dumps({"who": who, "outcome": outcome} | told))


def _briefly(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= MOST_TOLD else text[:MOST_TOLD] + "…"


async def _create_topic(means: Means, asked: Asked) -> str:
    name = text_of(asked, "topic")
    partitions, copies = (number_of(asked, part, -1, most) for part, most in COUNTS.items())
    topic = NewTopic(name=name, partitions=partitions, replication_factor=copies, configs=pairs_of(asked, "configs"))
    await means.watched.admin.topics.create(topic)
    return f"topic {name} was created"


async def _delete_topic(means: Means, asked: Asked) -> str:
    await means.watched.admin.topics.delete(text_of(asked, "topic"))
    return f"topic {text_of(asked, 'topic')} was deleted"


async def _alter_config(means: Means, asked: Asked) -> str:
    """An empty value goes back to the default."""
    value = bytes_of(asked, "value_of_key")
    operation = ConfigOperation.SET if value else ConfigOperation.DELETE
    change = ConfigChange(text_of(asked, "key_name"), operation, value.decode() if value else None)
    await means.watched.admin.configs.alter(ResourceType.TOPIC, text_of(asked, "topic"), [change])
    return f"{change.name} of {text_of(asked, 'topic')} was changed"


async def _produce(means: Means, asked: Asked) -> str:
    settings = with_properties(ProducerSettings(client_id="penstock-console", linger_ms=0), means.properties)
    headers = [(name, value.encode()) for name, value in pairs_of(asked, "headers").items()]
    key, value = await _made(means, asked, "key"), await _made(means, asked, "value")
    async with Producer(means.watched.bootstrap_servers, settings) as producer:
        await producer.cluster.topic(text_of(asked, "topic"))  # one that is not there is not made
        where = await producer.send_and_wait(
            text_of(asked, "topic"),
            value,
            key=key,
            headers=headers,
        )
    return f"the record is at offset {where.offset} of {where.topic}-{where.partition}"


async def _made(means: Means, asked: Asked, part: str) -> bytes | None:
    """Of a text, or by the latest schema of a subject of JSON."""
    made = await by_schema(means, asked, part, [bytes_of(asked, part)])
    return made[0]


async def _reset_offsets(means: Means, asked: Asked) -> str:
    group, topic, to = text_of(asked, "group"), text_of(asked, "topic"), text_of(asked, "to")
    admin = means.watched.admin
    partitions = [TopicPartition(topic, one) for one in (await means.watched.topic(topic)).partitions]
    if to in ("earliest", "latest"):
        new = await offsets_at(admin.cluster, partitions, EARLIEST if to == "earliest" else LATEST)
    elif to == "time":
        new = await offsets_at(admin.cluster, partitions, _time_ms(asked))
    else:
        new = await bounded(admin.cluster, dict.fromkeys(partitions, number_of(asked, "at", 0)))
    described = {row.group_id: row for row in await admin.groups.listings()}.get(group)
    if described is not None and described.state not in ("Empty", "Dead"):
        raise ConsoleError(
            HTTPStatus.CONFLICT,
            f"group {group!r} has members (its state is {described.state}): stop its consumers first",
        )
    await admin.groups.set_offsets(group, {one: OffsetAndMetadata(offset) for one, offset in new.items()})
    return f"group {group} goes on with {len(new)} partitions of {topic} at their new offsets"


async def _delete_group(means: Means, asked: Asked) -> str:
    await means.watched.admin.groups.delete(text_of(asked, "group"))
    return f"group {text_of(asked, 'group')} was deleted"


async def _elect_leader(means: Means, asked: Asked) -> str:
    partition = TopicPartition(text_of(asked, "topic"), number_of(asked, "partition", 0, INT32))
    outcomes = await means.watched.admin.partitions.elect_leaders(ElectionType.PREFERRED, [partition])
    outcome = outcomes.get(partition)
    if outcome is None or outcome.error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
        why = "no answer" if outcome is None else outcome.message or outcome.error.name
        raise ConsoleError(HTTPStatus.CONFLICT, f"{partition} keeps its leader: {why}")
    return f"{partition} is led by its preferred replica"


async def _register_schema(means: Means, asked: Asked) -> str:
    subject, kind = text_of(asked, "subject"), _kind(asked)
    number, version = await means.schemas.register(subject, kind, _schema(asked))
    return f"schema {number} is version {version} of {subject}"


def _kind(asked: Asked) -> str | None:
    """None for that of the latest version."""
    kind: str | None = one_of(asked, "kind", KINDS) if asked.get("kind") else None
    return kind


def _schema(asked: Asked) -> str:
    return (bytes_of(asked, "schema") or b"").decode()


def _register_words(means: Means, asked: Asked) -> list[str]:
    kind = _kind(asked)
    if not _schema(asked):
        raise bad_request("schema is the text of a schema")
    words = ["schemas", "--register", "--subject", text_of(asked, "subject"), *(["--type", kind] if kind else [])]
    return [*words, "--schema-registry", means.schemas.shown]


def _create_words(_: Means, asked: Asked) -> list[str]:
    words = ["topics", "--create", "--topic", text_of(asked, "topic")]
    for name, most in COUNTS.items():
        number = number_of(asked, name, -1, most)
        words += [f"--{name.replace('_', '-')}", str(number)] if number >= 0 else []
    for key, value in pairs_of(asked, "configs").items():
        words += ["--config", f"{key}={value}"]
    return words


def _alter_words(_: Means, asked: Asked) -> list[str]:
    key, value = text_of(asked, "key_name"), (bytes_of(asked, "value_of_key") or b"").decode()
    change = ["--add-config", f"{key}=[{value}]" if "," in value else f"{key}={value}"]
    if not value:
        change = ["--delete-config", key]
    return ["configs", "--alter", "--topic", text_of(asked, "topic"), *change]


def _produce_words(means: Means, asked: Asked) -> list[str]:
    words = ["produce", "--topic", text_of(asked, "topic")]
    words += ["--property", "parse.headers=true"] if pairs_of(asked, "headers") else []
    schemas = [
        word
        for part in ("key", "value")
        if asked.get(f"{part}_schema")
        for word in (f"--{part}-schema", text_of(asked, f"{part}_schema"))
    ]
    words += ["--schema-registry", means.schemas.shown, *schemas] if schemas else []
    return words + (["--property", "parse.key=true"] if asked.get("key") is not None else [])


def _line(asked: Asked) -> str:
    """What `penstock produce` reads."""
    headers = ",".join(f"{name}:{value}" for name, value in pairs_of(asked, "headers").items())
    parts = [headers] if headers else []
    key, value = bytes_of(asked, "key"), bytes_of(asked, "value")
    parts += [] if key is None else [key.decode()]
    return "\t".join([*parts, (value or b"").decode()])


def _reset_words(_: Means, asked: Asked) -> list[str]:
    match text_of(asked, "to"):
        case "earliest" | "latest" as end:
            to = [f"--to-{end}"]
        case "offset":
            to = ["--to-offset", str(number_of(asked, "at", 0))]
        case "time":
            to = ["--to-datetime", _moment(_time_ms(asked))]
        case _:
            raise bad_request("to is one of earliest, latest, offset, time")
    return [
        *("groups", "--reset-offsets", "--group", text_of(asked, "group"), "--topic", text_of(asked, "topic"), *to),
        "--execute",
    ]


def _elect_words(_: Means, asked: Asked) -> list[str]:
    where = ["--topic", text_of(asked, "topic"), "--partition", str(number_of(asked, "partition", 0, INT32))]
    return ["leader-election", "--election-type", "preferred", *where]


def _time_ms(asked: Asked) -> int:
    if asked.get("at") in (None, ""):
        raise bad_request("at is the time, in milliseconds since 1970")
    return number_of(asked, "at", 0, LATEST_MS)


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


CHANGES: Final[dict[str, Change]] = {
    "create-topic": Change(_create_words, _create_topic, "topic"),
    "delete-topic": Change(
        lambda _, asked: ["topics", "--delete", "--topic", text_of(asked, "topic")],
        _delete_topic,
        "topic",
        dangerous=True,
    ),
    "alter-config": Change(_alter_words, _alter_config, "topic"),
    "produce": Change(_produce_words, _produce, "topic", reads=_line),
    "register-schema": Change(_register_words, _register_schema, "subject", reads=_schema, asks_cluster=False),
    "reset-offsets": Change(_reset_words, _reset_offsets, "group", dangerous=True),
    "delete-group": Change(
        lambda _, asked: ["groups", "--delete", "--group", text_of(asked, "group")],
        _delete_group,
        "group",
        dangerous=True,
    ),
    "elect-leader": Change(_elect_words, _elect_leader, "topic"),
    **SECURITY_CHANGES,
}
"""By the names that pages use."""


def _change(asked: Asked) -> Change:
    action = asked.get("action")
    if not isinstance(action, str) or action not in CHANGES:
        raise bad_request(f"action is one of {', '.join(CHANGES)}")
    return CHANGES[action]
