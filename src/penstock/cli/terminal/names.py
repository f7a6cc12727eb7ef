"""Topics and partitions as options name them: expressions over names, `topic:0,2`, `topic:0-3`."""

import re
from collections.abc import Collection, Sequence

import click

from penstock.cli.terminal.failures import wrong_usage
from penstock.client.values import TopicPartition


def matching(expression: str, names: Sequence[str], option: str) -> list[str]:
    """`expression`: a name, a regular expression, or several of them with commas."""
    exact = [part.strip() for part in expression.split(",")]
    with wrong_usage(re.error, of=f"{option}: {expression!r} is no regular expression"):
        pattern = re.compile("|".join(f"(?:{part})" for part in exact if part))
    return [name for name in names if name in exact or pattern.fullmatch(name)]


def parse_numbers(text: str, option: str) -> list[int]:
    """Reads `0,2,5-7`."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise click.UsageError(f"{option}: {text!r} is not a list of numbers such as 0,2,5-7")
        numbers += range(int(first), int(last if dash else first) + 1)
    return numbers


def parse_topic_partitions(text: str, counts: "dict[str, int]", option: str) -> list[TopicPartition]:
    """`topic` (all its partitions) or `topic:0,2`; UsageError if the topic or a partition does not exist."""
    topic, colon, rest = text.partition(":")
    if topic not in counts:
        raise click.UsageError(f"{option}: topic {topic!r} does not exist")
    numbers: Collection[int] = parse_numbers(rest, option) if colon else range(counts[topic])
    for number in numbers:
        if number >= counts[topic]:
            raise click.UsageError(f"{option}: topic {topic!r} has no partition {number}: it has {counts[topic]}")
    return [TopicPartition(topic, number) for number in numbers]
