"""The forms that values of options have: numbers, sizes, times, offsets as JSON. Errors name the option."""

import difflib
import json
import re
from collections.abc import Collection, Mapping

from penstock.client.blocking import TopicPartition
from penstock.pipeline.errors import PipelineError

SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
TIME_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
WITH_UNIT = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
OFFSETS_FORM = '{"topic": {"0": 23, "1": -2}}'
ASSIGN_FORM = '{"topic": [0, 1]}'


def number(name: str, text: str, at_least: int = 0) -> int:
    try:
        value = int(text)
    except ValueError:
        value = at_least - 1
    if value < at_least:
        raise PipelineError(f"Option {name}={text}: it must be a whole number of at least {at_least}.", option=name)
    return value


def boolean(name: str, text: str) -> bool:
    """`true` or `false` in any case."""
    if text.lower() not in ("true", "false"):
        raise PipelineError(f"Option {name}={text}: it must be true or false.", option=name)
    return text.lower() == "true"


def nearest(text: str, allowed: Collection[str], alike: float = 0.6) -> str:
    """A sentence to add, where one of the words was probably meant: one that is so much like the text."""
    near = difflib.get_close_matches(text, allowed, 1, cutoff=alike)
    return f" Did you mean {near[0]}?" if near else ""


def choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    """One of some words, in any case."""
    if text.lower() not in allowed:
        raise PipelineError(
            f"Option {name}={text}: it must be {' or '.join(allowed)}.{nearest(text.lower(), allowed)}", option=name
        )
    return text.lower()


def size_in_bytes(name: str, text: str) -> int:
    """A number of bytes such as 1000000, 512m or 1g."""
    return _with_unit(name, text, SIZE_UNITS, "a size such as 1000000, 512m or 1g")


def time_in_ms(name: str, text: str) -> int:
    """A time such as 1500, 1500ms, 30s or 15m."""
    return _with_unit(name, text, TIME_UNITS_MS, "a time such as 1500ms, 30s or 15m")


def _with_unit(name: str, text: str, units: Mapping[str, int], form: str) -> int:
    found = WITH_UNIT.fullmatch(text)
    unit = found and found.group(2).lower()
    if not found or unit not in units:
        raise PipelineError(f"Option {name}={text}: it must be {form}.", option=name)
    return int(found.group(1)) * units[unit or ""]


def per_partition(name: str, text: str, at_least: int) -> dict[TopicPartition, int]:
    """Offsets or timestamps per partition, as JSON in the JVM connector's layout."""
    try:
        parsed = json.loads(text)
        values = {
            (topic, int(partition)): _whole(value)
            for topic, partitions in parsed.items()
            for partition, value in partitions.items()
        }
        if min(values.values(), default=at_least) < at_least:
            raise ValueError(at_least)
        return values
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f"Option {name}={text}: it must be JSON such as {OFFSETS_FORM}.", option=name) from None


def partition_list(name: str, text: str) -> list[TopicPartition]:
    """Partitions as JSON in the JVM connector's layout."""
    try:
        parsed = json.loads(text)
        return sorted((topic, _whole(partition)) for topic, partitions in parsed.items() for partition in partitions)
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f"Option {name}={text}: it must be JSON such as {ASSIGN_FORM}.", option=name) from None


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value
