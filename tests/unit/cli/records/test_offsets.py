"""`penstock offsets`: how far each replica is, and what a moment is."""

from types import SimpleNamespace
from typing import Any

import click
import pytest

from penstock.cli.records.offsets import Chosen, _known, _parse_moment, _replica_rows
from penstock.client.replica_offsets import ReplicaOffsets
from penstock.client.values import TopicPartition

PARTITION = TopicPartition("t", 0)


def rows(leader: int, **found: tuple[int, int, int]) -> list[tuple[object, ...]]:
    """Of replicas 1 to 3, of which 1 and 2 are in sync; where the log of each begins, is committed to and ends."""
    row = SimpleNamespace(replicas=[2, 1, 3], isr=[1, 2], leader=leader)
    metadata: Any = SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: row})})
    told = {(PARTITION, int(name[1:])): ReplicaOffsets(*numbers) for name, numbers in found.items()}
    return [shown[2:] for shown in _replica_rows(metadata, PARTITION, told)]


def test_the_lag_is_what_the_leaders_log_has_beyond_the_replicas() -> None:
    assert rows(1, n1=(0, 8, 10), n2=(2, 9, 11), n3=(1, 4, 6)) == [
        (2, False, True, 2, 9, 11, 0),
        (1, True, True, 0, 8, 10, 0),
        (3, False, False, 1, 4, 6, 4),
    ]


def test_who_does_not_answer_has_no_offsets() -> None:
    unknown = (None,) * 4
    assert rows(1, n1=(0, 8, 10)) == [
        (2, False, True, *unknown),
        (1, True, True, 0, 8, 10, 0),
        (3, False, False, *unknown),
    ]
    assert rows(1, n3=(0, 8, 10)) == [
        (2, False, True, *unknown),
        (1, True, True, *unknown),
        (3, False, False, 0, 8, 10, None),
    ]
    assert rows(-1, n2=(0, 8, 10))[0] == (2, False, True, 0, 8, 10, None)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        *(("latest", -1), ("earliest", -2), ("max-timestamp", -3), ("earliest-local", -4), ("latest-tiered", -5)),
        *((str(number), number) for number in (-5, -1, 0, 1, 1_700_000_000_000)),
    ],
)
def test_moments(text: str, moment: int) -> None:
    assert _parse_moment(text) == moment


@pytest.mark.parametrize("text", ["-6", "-100", "now", "1.5", ""])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(click.UsageError, match=f"--time: '{text}' is neither one of latest, earliest, max-timestamp,"):
        _parse_moment(text)


@pytest.mark.parametrize(("number", "known"), [(-2, None), (-1, None), (0, 0), (7, 7)])
def test_what_is_not_known(number: int, known: int | None) -> None:
    assert _known(number) == known


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ({"topic": "t", "partitions": "0"}, False),
        ({"topic_partitions": "t:0"}, False),
        ({"topic_partitions": "t:0", "exclude_internal_topics": True}, False),
        ({"topic_partitions": "t:0", "topic": "t"}, True),
        ({"topic_partitions": "t:0", "partitions": "0"}, True),
    ],
)
def test_partitions_are_named_in_one_way(given: dict[str, Any], is_refused: bool) -> None:
    names: dict[str, Any] = dict.fromkeys(("topic", "partitions", "topic_partitions"))
    chosen = Chosen(**names | {"exclude_internal_topics": False} | given)
    if is_refused:
        with pytest.raises(click.UsageError, match="give --topic-partitions or --topic and --partitions, not both"):
            chosen.check()
    else:
        chosen.check()
