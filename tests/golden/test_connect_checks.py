"""What is wrong with configurations of connectors, key by key; and what a worker says of each key of a good one."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from penstock import __version__
from penstock.work.connect.config import ConfigError
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.providers import Providers
from penstock.work.connect.rest.catalog import validated
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.runtime.kinds import checked
from penstock.work.connect.runtime.new_topics import topic_groups
from penstock.work.connect.runtime.settings import KEYS

FOLDER: Final = Path(__file__).parent
SOURCE: Final = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
SINK: Final = {"name": "lines", "connector.class": "FileStreamSink", "topics": "t"}
LOST: Final = "errors.deadletterqueue.topic.name"
MORE: Final[Mapping[str, tuple[Mapping[str, str | None], ...]]] = {
    "both": (
        *({"name": name} for name in ("", " ", "a\x01b", "ä b", None)),
        *({"connector.class": name} for name in ("", "NoSuch", "json:JSONDecoder", "FileStreamSnk")),
        *({"tasks.max": count} for count in ("0", "1", "two", "-1")),
        *({"task.restarts.max": count} for count in ("-1", "0")),
        *({"task.shutdown.graceful.timeout.ms": count} for count in ("-1", "0")),
        *({"tasks.max.enforce": word} for word in ("yes", "TRUE")),
        *({"config.action.reload": word} for word in ("none", "restart", "later")),
        *({"errors.tolerance": word} for word in ("all", "some")),
        *({"errors.retry.delay.max.ms": word} for word in ("0", "1")),
        *({"errors.deadletterqueue.topic.replication.factor": word} for word in ("-2", "-1")),
        *({"key.converter": name} for name in ("JsonConverter", "NoSuch")),
        *({"value.converter": name} for name in ("JsonConverter", "NoSuch")),
        *({"header.converter": name} for name in ("SimpleHeaderConverter", "NoSuch")),
        *({"connector.plugin.version": version} for version in ("(,0)", "[0,)", "x")),
        {"transforms": "a"},
        {"transforms": "a", "transforms.a.type": "NoSuch"},
        {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value"},
        {"transforms": "a,a", "transforms.a.type": "org.apache.kafka.connect.transforms.ValueToKey"},
        {"predicates": "p"},
        {"producer.override.no.such": "1"},
        {"admin.override.no.such": "1"},
        {"consumer.override.no.such": "1"},
        {"consumer.override.group.id": "workers"},
        {"consumer.override.group.id": "connect-lines"},
        {"producer.override.linger.ms": "soon"},
        {"file": "f", "batch.size": "0"},
        {"offsets.storage.topic": "own"},
    ),
    "source": (
        {"topic": None},
        *({"exactly.once.support": word} for word in ("required", "requested", "perhaps")),
        *({"transaction.boundary": word} for word in ("poll", "interval", "connector", "later")),
        *({"transaction.boundary.interval.ms": word} for word in ("0", "1")),
        {"topic.creation.default.partitions": "1"},
        {"topic.creation.default.partitions": "0", "topic.creation.default.replication.factor": "-2"},
        {"topic.creation.default.partitions": "-1", "topic.creation.default.replication.factor": "1"},
        {
            "topic.creation.groups": "a,a",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
        {
            "topic.creation.groups": "a, default",
            "topic.creation.a.include": "x.*, y",
            "topic.creation.a.exclude": "xy",
            "topic.creation.a.partitions": "7",
            "topic.creation.a.cleanup.policy": "compact",
            "topic.creation.default.include": "z",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "2",
        },
        {
            "topic.creation.groups": "a",
            "topic.creation.a.include": "(",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "2",
        },
    ),
    "sink": (
        {"topics": None},
        {"topics": ""},
        {"topics": " , "},
        {"topics": None, "topics.regex": "t.*"},
        {"topics.regex": "t.*"},
        {"topics": None, "topics.regex": "("},
        {"topics": None, "topics.regex": "t{99999999999}"},
        {LOST: "t"},
        {LOST: "other"},
        {LOST: " t "},
        {LOST: "t2", "topics": None, "topics.regex": "t.*"},
        {LOST: "at", "topics": None, "topics.regex": "t.*"},
        {"name": "workers"},
        {"name": "workers", "consumer.override.group.id": "other"},
    ),
}
SETTINGS: Final = {key.name: key.default for key in KEYS} | {"group.id": "connect-workers"}


def validation(config: Mapping[str, str | None], *, exact: bool) -> dict[str, Any]:
    settings = SETTINGS | ({"exactly.once.source.support": "enabled"} if exact else {})
    return validated(config, {}, settings, Providers({}))


def wrong(config: Mapping[str, str | None], *, exact: bool) -> Iterator[str]:
    """By a validation, and when it is to run."""
    try:
        for row in validation(config, exact=exact)["configs"]:
            for reason in row["value"]["errors"]:
                yield f"{row['value']['name']}: {reason}"
    except RestError as error:
        yield f"no validation: {error}"
    given = {key: value for key, value in config.items() if value is not None}
    try:
        checked(given, has_transactions=exact)
        yield "runs"
    except ConfigError as error:
        yield f"does not run: {', '.join(error.errors)}"
    except PluginError as error:
        yield f"does not run: {error}"
    try:
        for group in topic_groups(given):
            counts = f"{group.partitions} x {group.replication_factor}"
            yield f"new topics: {group.include} without {group.exclude}: {counts}, {group.configs}"
    except ConfigError:
        pass


def mistakes() -> Iterator[str]:
    for kind, base in (("source", SOURCE), ("sink", SINK)):
        for exact in (False, True):
            yield f"# {kind}, {'with' if exact else 'without'} transactions: {' '.join(wrong(base, exact=exact))}"
            yield ""
        for more in (*MORE["both"], *MORE[kind]):
            said = list(wrong({**base, **more}, exact=False))
            with_transactions = list(wrong({**base, **more}, exact=True))
            yield f"{kind} {', '.join(f'{key}={value!r}' for key, value in more.items())}"
            yield from (f"  {line}" for line in said)
            if with_transactions != said:
                yield "  with transactions of sources:"
                yield from (f"    {line}" for line in with_transactions)
            yield ""


def catalog() -> Iterator[str]:
    named = {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value"}
    passwords = {"connector.class": "penstock.HttpSink", "http.url": "http://a", "http.authorization.password": "x"}
    for base in (SOURCE, SINK, SOURCE | named, SINK | passwords | {"predicates": "p", "no.such": "1"}):
        found = validation(base, exact=False)
        yield f"{found['name']}: {found['error_count']} errors, groups {', '.join(found['groups'])}"
        for row in found["configs"]:
            key, value = row["definition"], row["value"]
            told = "".join(f" | {key[name]}" for name in key if name not in ("name", "documentation")) if key else ""
            yield f"  {value['name']}{told}"
            yield f"    {value['value']!r} {value['recommended_values']} {value['errors']} {value['visible']}"
        yield ""


@pytest.mark.parametrize(("name", "lines"), [("connect_mistakes.txt", mistakes), ("connect_catalog.txt", catalog)])
def test_it_is_as_written(request: pytest.FixtureRequest, name: str, lines: Callable[[], Iterator[str]]) -> None:
    text = "\n".join(lines()).replace(__version__, "this version").rstrip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / name).write_text(text, encoding="utf-8")
    assert text == (FOLDER / name).read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
