import random
from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.group.classic.group import GroupState
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.consumer.values import STABLE, Current, GroupEpoch, Resolved, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.parts import PartRecord
from penstock.coordinator.group.records import (
    CommittedOffset,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
    decode_record,
    key_version_of,
)
from penstock.coordinator.group.settings import GroupSettings, patience_ms
from penstock.coordinator.group.share.records import MEMBER as SHARE_MEMBER
from penstock.coordinator.group.share.state import ShareGroupRecord
from penstock.coordinator.group.share.values import Subscription as ShareSubscription
from penstock.coordinator.group.streams.records import MEMBER as STREAMS_MEMBER
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.coordinator.group.streams.values import Member as StreamsMember
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import DecodeError


def member(member_id: str) -> MemberMetadata:
    return MemberMetadata(member_id=member_id, client_id="c", rebalance_timeout=0, session_timeout=10_000)


def test_the_leader_is_the_one_that_was_stored() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="b", members=[member("a"), member("b")]
    )
    key, stored = GroupRecord("orders", value).encode()
    shard.read(key, stored)
    assert shard.loaded(0) == []
    (group,) = shard.classic_groups()
    assert (group.leader_id, group.generation, group.state) == ("b", 3, GroupState.STABLE)
    # Records of the oldest version have no rebalance timeout: the session timeout stands for it.
    assert [one.rebalance_timeout_ms for one in group.members.values()] == [10_000, 10_000]
    assert shard.next_deadline_ms() == patience_ms(10_000)


def test_the_last_record_about_a_group_holds() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    for generation in (1, 2):
        shard.read(*GroupRecord("orders", GroupMetadataValue(generation=generation)).encode())
        shard.read(*GroupRecord("gone", GroupMetadataValue(generation=generation)).encode())
    shard.read(*GroupRecord("gone", None).encode())
    shard.loaded(0)
    assert [(group.group_id, group.generation) for group in shard.classic_groups()] == [("orders", 2)]


def test_a_damaged_record_is_an_error() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    with pytest.raises(DecodeError):
        shard.read(b"\x00\x02\x00\x06orders", b"\x00\x03\x7f")


def test_an_empty_group_keeps_its_type() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    shard.read(*GroupRecord("orders", GroupMetadataValue(protocol_type="consumer")).encode())
    shard.loaded(0)
    (group,) = shard.classic_groups()
    assert (group.protocol_type, group.state) == ("consumer", GroupState.EMPTY)


def drawn(seed: int) -> list[ConsumerRecord]:
    """Of two groups, a few members, and what is taken away again."""
    draw, found = random.Random(seed), list[ConsumerRecord]()
    for _ in range(draw.randrange(1, 30)):
        group_id, name, topic = draw.choice("gh"), draw.choice(("m1", "m2", "m3")), UUID(int=draw.randrange(3))
        places = {topic: {draw.randrange(4): 1}}
        values: list[tuple[int, str, Any]] = [
            (GROUP, "", GroupEpoch(draw.randrange(9), 7)),
            (ASSIGNMENT, "", AssignmentEpoch(draw.randrange(9), 5)),
            (MEMBER, name, Subscription(draw.choice((None, "i")), topics=tuple(draw.sample("abc", 1)))),
            (TARGET, name, {topic: (1,)}),
            (CURRENT, name, Current(1, 0, STABLE, places, draw.choice(({}, places)))),
            (EXPRESSION, "x.*", Resolved(("a",), 1, 5)),
        ]
        key, name, value = draw.choice(values)
        found.append(ConsumerRecord(group_id, draw.choice((value, value, value, None)), key, name))
    return found


def told(groups: Mapping[str, Any]) -> dict[str, list[object]]:
    slots = ("owners", "static_ids", "topics", "assignor_counts", "wanted_expressions")
    return {
        group_id: [*(getattr(state, name) for name in slots), state._parts, state.committed._parts]
        for group_id, state in groups.items()
    }


def test_a_load_ends_where_one_record_after_the_other_does() -> None:
    for seed in range(60):
        shard, plain = GroupShard(GroupSettings(), random.Random(1), ClusterImage()), dict[str, Any]()
        for record in drawn(seed):
            key, value = record.encode()
            shard.read(key, value)
            ConsumerRecord.decode(key_version_of(key), key, value).apply_to(plain)
            record.count_in(plain)
        shard.loaded(0)
        assert told(shard._table.image.of_kind("consumer")) == told(plain), seed


def some_offsets(draw: random.Random) -> list[tuple[bytes, bytes | None]]:
    """Of the usual form and of others, what takes them away, records of groups, and what is no record."""
    found = list[tuple[bytes, bytes | None]]()
    for _ in range(draw.randrange(60)):
        group_id, topic, partition = (
            draw.choice(("g", "g", "grüße")),
            draw.choice(("t", "t", "u" * 600)),
            draw.choice((0, 0, -1)),
        )
        usual = CommittedOffset(draw.randrange(9), draw.choice((-1, 4)), "", 1_000)
        others = usual.replace(metadata="m"), usual.replace(expire_timestamp_ms=5), usual.replace(topic_id=UUID(int=1))
        value = draw.choice((usual, usual, usual, *others, None, None))
        key, stored = OffsetRecord(group_id, topic, partition, value).encode()
        if draw.random() < 0.1:
            key = draw.choice((key[:-1], b"\0\0" + key[2:], key[:3] + b"\x09" + key[4:], b"\0\1"))
        found.append((key, stored))
        if draw.random() < 0.1:
            found.append(GroupRecord(group_id, draw.choice((None, GroupMetadataValue(generation=3)))).encode())
    return found


def in_order(table: Any) -> Any:
    """Also where dictionaries stand within one."""
    return [(key, in_order(value)) for key, value in table.items()] if isinstance(table, dict) else table


def test_offsets_are_loaded_as_one_record_after_the_other_is() -> None:
    for seed in range(100):
        draw, left_out = random.Random(seed), list[bytes]()
        pairs = some_offsets(draw)
        shard, plain, refused = (
            GroupShard(GroupSettings(), random.Random(1), ClusterImage()),
            GroupImage(),
            list[bytes](),
        )
        while pairs:
            at = draw.randrange(1, 40)
            shard.read_last(pairs[:at], lambda key, _, left_out=left_out: left_out.append(key))  # type: ignore[misc]
            for key, value in pairs[:at]:
                try:
                    record = decode_record(key, value)
                except DecodeError:
                    refused.append(key)
                else:
                    assert record is not None
                    plain.apply(record)
            del pairs[:at]
        image = shard._table.image
        assert in_order(image._offsets) == in_order(plain._offsets), seed
        assert in_order(image._readers) == in_order(plain._readers), seed
        assert in_order(image._kinds) == in_order(plain._kinds), seed
        assert left_out == refused


def test_many_groups_are_put_to_work_some_at_a_time() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    for number in range(1_000):
        value = GroupMetadataValue(protocol_type="consumer", generation=1, members=[member("a"), member("b")])
        shard.read(*GroupRecord(f"group-{number}", value).encode())
    counts = [len(list(shard.classic_groups())) for _ in shard.restoring(0)]
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert len(steps) > 10
    assert max(steps) <= 100
    shard.loaded(0)
    assert len(list(shard.classic_groups())) == 1_000
    assert shard.next_deadline_ms() == patience_ms(10_000)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (ConsumerRecord, MEMBER, Subscription()),
        (ShareGroupRecord, SHARE_MEMBER, ShareSubscription()),
        (StreamsRecord, STREAMS_MEMBER, StreamsMember()),
    ],
)
def test_one_group_of_many_members_is_put_to_work_some_at_a_time(
    record: type[PartRecord], key: int, value: object
) -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    for number in range(1_000):
        shard.read(*record("crowd", value, key, f"m{number}").encode())
    assert started_sessions(shard) == (200, 1_000)


def test_one_classic_group_of_many_members_is_put_to_work_some_at_a_time() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    value = GroupMetadataValue(generation=1, members=[member(f"m{number}") for number in range(1_000)])
    shard.read(*GroupRecord("crowd", value).encode())
    assert started_sessions(shard) == (200, 1_000)


def started_sessions(shard: GroupShard) -> tuple[int, int]:
    """At most between two steps, and in all."""
    timers = shard._table.timers
    counts = [0, *(len(timers._heap) for _ in chain(shard.restoring(0), ["done"]))]
    return max(after - before for before, after in pairwise(counts)), counts[-1]


def test_what_is_committed_is_noted_some_groups_at_a_time_as_well() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    for number in range(1_000):
        shard.read(*ConsumerRecord(f"group-{number}", Subscription(), MEMBER, "m").encode())
    groups = shard._table.image.of_kind("consumer")
    counts = [sum(len(state.committed.members) for state in groups.values()) for _ in shard.restoring(0)]
    assert counts == list(range(100, 1_001, 100))


def test_what_is_taken_away_of_a_group_that_is_not_there_makes_none() -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    shard.read(*ConsumerRecord("gone", None, MEMBER, "m").encode())
    assert shard._table.image.of_kind("consumer") == {}
