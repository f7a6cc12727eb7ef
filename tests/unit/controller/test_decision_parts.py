"""What a decision on very many things is appended in, and what stands beside it alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.test_hand_over_leader import handed, offering

from penstock.controller import decision
from penstock.controller.decision import Decision
from penstock.controller.delays import topics_that_wait
from penstock.leadership.balancer import Balancer
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode


def record_of(letter: str) -> MetadataRecord:
    """T: a topic; p: a partition; a and b: configs of two topics, A: one of a broker of the name a."""
    if letter == "T":
        return TopicRecord(name="t", topic_id=UUID(int=1))
    if letter == "p":
        return PartitionRecord(partition_id=0, topic_id=UUID(int=1))
    kind = 4 if letter.isupper() else 2
    return ConfigRecord(resource_type=kind, resource_name=letter.lower(), name="k", value="v")


@pytest.mark.parametrize(
    ("records", "first", "parts"),
    [
        ("", TopicRecord, [0]),
        ("Tp", TopicRecord, [2]),
        ("TpTpTp", TopicRecord, [4, 2]),
        ("TppTpTp", TopicRecord, [3, 4]),
        ("TppppppTp", TopicRecord, [7, 2]),
        ("TpTpTpTpTp", TopicRecord, [4, 4, 2]),
        ("TpTpTp", None, [6]),
        ("aaabbb", ConfigRecord, [3, 3]),
        ("aaaabbb", ConfigRecord, [4, 3]),
        ("aaaaaaa", ConfigRecord, [7]),
        ("aaaAAA", ConfigRecord, [3, 3]),
        ("abab", ConfigRecord, [3, 1]),
        ("ppp" + "a" * 3, ConfigRecord, [3, 3]),
    ],
)
def test_parts_hold_each_on_their_own(
    monkeypatch: pytest.MonkeyPatch, records: str, first: type[MetadataRecord] | None, parts: list[int]
) -> None:
    monkeypatch.setattr(decision, "MANY_RECORDS", 3)
    made = [record_of(letter) for letter in records]
    found = list(Decision(made, None).parts(first))
    assert [len(part) for part in found] == parts
    assert [record for part in found for record in part] == made


def test_topics_alone_may_let_records_wait() -> None:
    may = {DELAY_ENABLE: "true"}
    image: Any = SimpleNamespace(
        configs={
            ConfigResource(ResourceType.TOPIC, "waits"): may,
            ConfigResource(ResourceType.TOPIC, "does not"): {DELAY_ENABLE: "false"},
            ConfigResource(ResourceType.GROUP, "group"): may,
        }
    )
    assert list(topics_that_wait(image)) == ["waits"]


@pytest.mark.parametrize("has_no_room", [False, True])
def test_who_has_no_room_takes_up_no_move_of_the_balancer(monkeypatch: pytest.MonkeyPatch, has_no_room: bool) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(Balancer, "take_up", lambda self, move, *times: taken.append(move.index))
    assert handed(offering(), has_no_room=has_no_room).error_code == ErrorCode.NONE
    assert taken == ([] if has_no_room else [0])
