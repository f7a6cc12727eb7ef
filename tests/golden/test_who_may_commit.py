"""What a group of each kind and state answers about offsets: who may commit and fetch them, which are in use, and what
may be deleted. `who_may_commit.txt` has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from tests.golden.test_kinds_and_requests import CALLER, G, Groups, classic

from penstock.coordinator.group.classic.group import GroupState
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import CommittedOffset
from penstock.coordinator.group.streams.values import Held
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

EXPECTED: Final = Path(__file__).parent / "who_may_commit.txt"
COLUMNS: Final = (
    "  member, instance, epoch: commits (of partition 0, in versions 8 and 9, of 1, of both, of another topic)"
    " | in a transaction | a fetch"
)

Made = tuple[Groups, str, int]
"""With the id of a member, and its epoch."""


def old(state: GroupState) -> Made:
    groups = Groups()
    return groups, classic(groups, state), 1


def only_commits() -> Made:
    groups = Groups()
    groups.commit()
    return groups, "m", 0


def promised() -> Made:
    groups = Groups()
    return groups, groups.join(version=4).member_id, 0


def of_connect(*, is_stable: bool, instance_id: str | None = None, is_over: bool = False) -> Made:
    """Not of consumers, so nobody knows which topics it reads."""
    groups = Groups()
    said = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=G, protocol_type="connect", session_timeout_ms=9_000, rebalance_timeout_ms=9_000, protocols=said
    ).replace(group_instance_id=instance_id)
    token = object()
    groups.bench.take(groups.shard.join(token, request, CALLER._replace(api_version=5), groups.bench.now_ms))
    member_id = groups.bench.replies[token].member_id if token in groups.bench.replies else ""
    if instance_id is None:
        groups.bench.take(groups.shard.join(token, request.replace(member_id=member_id), CALLER, groups.bench.now_ms))
    groups.bench.advance(1)
    (found,) = groups.shard.classic_groups()
    (member_id,) = found.members
    if is_stable:
        groups.sync(member_id)
    if is_over:
        groups.leave(member_id)
    return groups, member_id, 1


def new(kind: str, state: str) -> Made:
    """m is at epoch 5, has partition 0 since epoch 2, and 1, which it is to give up, since epoch 4."""
    groups = Groups()
    join: Callable[..., Any] = getattr(groups, kind)
    join("m", 0)
    group: Any = groups.shard._table.groups[G]
    if state == "Empty":
        join("m", -1)
        return groups, "m", 5
    current = group.state.current("m").replace(epoch=5, previous_epoch=4)
    topic = groups.bench.image.topics["words"].topic_id
    if kind == "consumer":
        current = current.replace(assigned={topic: {0: 2}}, revoking={topic: {1: 4}})
    elif kind == "streams":
        current = current.replace(assigned=Held(active={"0": {0: 2}}), revoking=Held(active={"0": {1: 4}}))
    for view in (group.state, group.committed):
        view.put(view.current_key, "m", current)
    if state == "Dead":
        group.kill(groups.bench.now_ms)
    return groups, "m", 5


STATES: Final[dict[str, Callable[[], Made]]] = {
    "only commits": only_commits,
    "promised": promised,
    **{f"classic {state.value}": lambda state=state: old(state) for state in GroupState},  # type: ignore[misc]
    "connect": lambda: of_connect(is_stable=True),
    "connect without an assignment": lambda: of_connect(is_stable=False),
    "connect, static": lambda: of_connect(is_stable=True, instance_id="i"),
    "connect, empty": lambda: of_connect(is_stable=True, is_over=True),
    **{
        f"{kind} {state}": lambda kind=kind, state=state: new(kind, state)  # type: ignore[misc]
        for kind in ("consumer", "streams", "share")
        for state in ("Empty", "Members", "Dead")
    },
}


def of_group(group: Group, now_ms: int) -> Iterator[str]:
    listed = group.listed()
    if listed is not None:
        yield f"  listed as {listed.protocol_type!r} {listed.group_state} {listed.group_type}"
    yield f"  members {group.member_count}, heard of {len(group.heard_ms)}, dead {group.is_dead}"
    yield f"  may be deleted {group.check_deletable().name}, offsets {group.check_offsets_deletable().name}"
    topics = ("words", "other")
    reads = [f"{name} {group.is_subscribed(name)} {group.is_reading(name)}" for name in topics]
    yield f"  may expire {group.may_expire}, subscribed and reading: {', '.join(reads)}"
    times = (group.idle_since_ms(CommittedOffset(1, -1, "", at_ms)) - now_ms for at_ms in (now_ms - 90, now_ms + 90))
    yield f"  offsets of 90 ms before and after are idle since {', '.join(map(str, times))}"


def of_requests(groups: Groups, group: Group, member_id: str, epoch: int) -> Iterator[str]:
    epochs = sorted({-1, *range(epoch + 2)})
    for who, instance, at in product(("its", "other", ""), (None, "i", "j"), epochs):
        said = {"its": member_id}.get(who, who)
        found = []
        for version, partitions in ((8, (0,)), (9, (0,)), (9, (1,)), (9, (0, 1)), (9, (None,))):
            topics = [
                OffsetCommitRequestTopic(
                    name="other" if one is None else "words",
                    partitions=[OffsetCommitRequestPartition(partition_index=one or 0)],
                )
                for one in partitions
            ]
            request = OffsetCommitRequest(
                group_id=G, member_id=said, group_instance_id=instance, generation_id_or_member_epoch=at, topics=topics
            )
            now_ms = groups.bench.now_ms
            found.append(group.check_commit(request, version, groups.shard._table, now_ms).name)
        pending = group.check_pending_commit(request).name
        fetch = group.check_fetch(said or None, at).name
        commits = found[0] if len(set(found)) == 1 else " ".join(found)
        yield f"    {who or '-'} {instance or '-'} {at}: {commits} | {pending} | {fetch}"


def lines() -> Iterator[str]:
    for state, make in STATES.items():
        groups, member_id, epoch = make()
        group = groups.shard._table.groups[G]
        yield f"{state}, epoch {epoch}"
        yield from of_group(group, groups.bench.now_ms)
        yield COLUMNS
        same: dict[str, list[str]] = {}
        for line in of_requests(groups, group, member_id, epoch):
            who, _, what = line.strip().partition(": ")
            same.setdefault(what, []).append(who)
        for what, those in same.items():
            yield f"    {what}"
            yield from (f"      {', '.join(those[at : at + 12])}" for at in range(0, len(those), 12))
        yield ""


def test_it_is_as_written(request: pytest.FixtureRequest) -> None:
    text = "\n".join(lines()).rstrip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        EXPECTED.write_text(text, encoding="utf-8")
    assert text == EXPECTED.read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
