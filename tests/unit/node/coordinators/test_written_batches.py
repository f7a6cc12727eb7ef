"""What machines have written: batches of their own, of a transaction, and markers; and what is summed up of groups."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.effects import Append, End, Part
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.node.coordinators.groups import _changed, _sum
from penstock.node.coordinators.hosted import Hosted
from penstock.protocol.batch import read_header
from penstock.protocol.compression import Compression
from penstock.protocol.records import decode_batch

ID, OTHER = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("part", "is_transactional", "is_control", "producer"),
    [
        (None, False, False, (-1, -1)),
        (Part(7, 3), True, False, (7, 3)),
        (Part(7, 3, End(5, is_commit=True)), True, True, (7, 3)),
        (Part(7, 3, End(5, is_commit=False)), True, True, (7, 3)),
    ],
)
def test_a_batch_is_of_its_transaction(
    part: Part | None, is_transactional: bool, is_control: bool, producer: tuple[int, int]
) -> None:
    machine: Any = SimpleNamespace(_compression=Compression.NONE)
    records = [] if is_control else [(b"k", b"v"), (b"l", None)]
    batch = bytes(Hosted._batch(machine, Append(1, records, part), 1_234))
    header = read_header(batch, 0)
    assert (header.is_transactional, header.is_control) == (is_transactional, is_control)
    assert ((header.producer_id, header.producer_epoch), header.base_timestamp) == (producer, 1_234)
    written = decode_batch(batch)
    if part is None or part.end is None:
        assert [(it.key, it.value) for it in written] == [(b"k", b"v"), (b"l", None)]
        return
    (marker,) = written
    assert (marker.key, marker.value) == (
        bytes([0, 0, 0, int(part.end.is_commit)]),
        bytes([0, 0, 0, 0, 0, 5]),
    )


def test_rebalances_of_several_partitions_are_summed_up_by_kind() -> None:
    assert _sum({"consumer": (2, 30), "share": (1, 5)}, {"consumer": (4, 70), "classic": (9, 8)}) == {
        "consumer": (6, 100), "share": (1, 5), "classic": (9, 8),
    }  # fmt: skip
    assert _sum({}, {}) == {}


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (TopicRecord(name="t", topic_id=ID), True),
        (PartitionRecord(topic_id=ID), True),
        (RemoveTopicRecord(topic_id=ID), True),
        (PartitionChangeRecord(topic_id=ID, leader=3), False),
        (PartitionChangeRecord(topic_id=ID, replicas=[1]), True),
    ],
)
def test_groups_look_again_at_topics_whose_partitions_or_replicas_have_changed(record: Any, changes: bool) -> None:
    assert _changed([record]) == ({ID} if changes else set())
    assert _changed([record, RemoveTopicRecord(topic_id=OTHER)]) == ({ID, OTHER} if changes else {OTHER})
