"""What a consumer does before it hands out records, step by step: topics, positions, commits and the end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.client.consumer import preparation as module
from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.consumer.preparation import MOST_EPOCHS, Preparation
from penstock.client.consumer.rebalances import Rebalances
from penstock.client.consumer.reconciliations import Reconciliations
from penstock.client.consumer.subscription import Subscription
from penstock.client.errors import ConnectionFailedError
from penstock.client.messages import OUTSIDER, Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import IsolationLevel, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

P, Q, R = (TopicPartition("t", number) for number in range(3))


class Paced(ConsumerSettings, kw_only=True):
    def backoff_ms(self, attempt: int) -> float:
        return 1_000.0 * attempt


class World:
    """Cluster, group and rebalances at once: notes what is called."""

    def __init__(self, **settings: Any) -> None:
        self.log: list[Any] = []
        self.old_s, self.failures = 3_600.0, list[Exception]()
        self.lost = self.must_join = self.is_due = self.is_joining = False
        self.topics_of_all: list[str] = []
        self.is_member, self.membership = True, Membership(1, "m")
        self.topics: dict[str, bool] = {"t": False, "u": False, "hidden": True}
        self.subscription = Subscription()
        self.made = Preparation(self, self.subscription, Paced(**settings), lambda: None, [])  # type: ignore[arg-type]
        if settings.get("group_id"):
            self.made._group = self.made._rebalances = self  # type: ignore[assignment]

    def _fails(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    # the cluster

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(is_internal=it) for name, it in self.topics.items()})

    def old_at_s(self, topics: Any) -> float:
        self.log.append(("how old", topics if topics is None else sorted(topics)))
        return asyncio.get_running_loop().time() + self.old_s

    async def refresh(self, topics: object, *, create: bool = False) -> Any:
        self.log.append(("refresh", topics, create))
        self._fails()
        return self.metadata

    async def retrying(self, attempt: Callable[[], Any]) -> Any:
        return await attempt()

    # the group and its rebalances

    async def stop(self) -> None:
        self.log.append("stop")

    async def close(self) -> None:
        self.log.append("close")

    async def leave(self, reason: str) -> None:
        self.log.append(("leave", reason))

    async def give_up(self, partitions: list[TopicPartition]) -> None:
        self.log.append(("give up", partitions))
        self._fails()

    def metadata_changed(self) -> None:
        self.log.append("metadata changed")

    async def go_on(self, topics: Any) -> None:
        self.log.append(("go on", sorted(topics)))


def test_the_protocol_decides_who_assigns() -> None:
    for protocol, group, rebalances in (
        ("classic", GroupMembership, Rebalances),
        ("consumer", AssignedMembership, Reconciliations),
    ):
        settings = ConsumerSettings(group_id="g", group_protocol=protocol)
        made = Preparation(World(), Subscription(), settings, lambda: None, [])  # type: ignore[arg-type]
        assert (type(made._group), type(made._rebalances)) == (group, rebalances)
        alone = Preparation(World(), Subscription(), settings.replace(group_id=None), lambda: None, [])  # type: ignore[arg-type]
        assert (alone._group, alone._rebalances) == (None, None)


@pytest.mark.parametrize("has_group", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
async def test_who_commits_is_a_member_where_the_group_assigns(*, has_group: bool, by_group: bool) -> None:
    world = World(group_id="g" if has_group else None)
    world.subscription.by_group = by_group
    is_member = has_group and by_group
    assert world.made.membership == (Membership(1, "m") if is_member else OUTSIDER)
    world.lost = True
    if is_member:
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID: the group has gone on without this member"):
            _ = world.made.membership
    else:
        assert world.made.membership == OUTSIDER


# -- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expression", "named"), [(None, None, ["t", "u"]), ("t", None, None), (None, "t.*", None)]
)
async def test_ages_are_of_the_topics_that_are_named_or_of_all(
    pattern: str | None, expression: str | None, named: list[str] | None
) -> None:
    world = World(group_id="g")
    world.subscription.subscribe(["u", "t"], None if pattern is None else re.compile(pattern), expression)
    assert not world.made._topics_are_old()
    assert not world.made._topics_are_old()
    assert world.log == [("how old", named)], "the first answer holds until it is over"
    world.made.subscribed(None)
    assert (world.must_join, world.made._topics_old_at_s) == (True, 0.0)
    world.old_s = -1
    assert world.made._topics_are_old()
    assert world.made._topics_are_old()
    assert world.log == [("how old", named)] * 3


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("pattern", [None, ".*"])
async def test_other_topics_have_it_join_again(pattern: str | None, *, create: bool, hides: bool) -> None:
    world = World(group_id="g", allow_auto_create_topics=create, exclude_internal_topics=hides)
    world.subscription.subscribe(["u", "t"], None if pattern is None else re.compile(pattern))
    found = {"t", "u"} | ({"hidden"} if pattern and not hides else set())
    await world.made._look_at_topics(world)  # type: ignore[arg-type]
    assert world.log == [("refresh", None if pattern else ["t", "u"], create), "metadata changed"]
    assert world.must_join
    assert world.made._topics == found
    world.must_join = False
    await world.made._look_at_topics(world)  # type: ignore[arg-type]
    assert (world.must_join, world.log[3]) == (False, "metadata changed")
    world.failures = [ConnectionFailedError("gone")]
    await world.made._look_at_topics(world)  # type: ignore[arg-type]
    assert len(world.log) == 5, "the old facts will do"


@pytest.mark.parametrize("pattern", [None, ".*"])
async def test_who_has_assigned_looks_at_the_topics_of_others_too_and_creates_none(pattern: str | None) -> None:
    """They would be forgotten else, and new partitions of them seen by nobody."""
    world = World(group_id="g")
    world.subscription.subscribe(["u", "t"], None if pattern is None else re.compile(pattern))
    world.topics_of_all = ["w", "t", "v"]
    await world.made._look_at_topics(world)  # type: ignore[arg-type]
    looks = [("refresh", None, True)] if pattern else [("refresh", ["v", "w"], False), ("refresh", ["t", "u"], True)]
    assert world.log == [*looks, "metadata changed"]


def test_the_topics_of_all_are_known_to_who_has_assigned_them() -> None:
    settings = ConsumerSettings(group_id="g")
    classic = GroupMembership(World(), "g", settings, lambda: None)  # type: ignore[arg-type]
    assert list(classic.topics_of_all) == []
    classic._counted = {"t": 3, "u": 0}
    assert list(classic.topics_of_all) == ["t", "u"]
    assert list(AssignedMembership(World(), "g", settings, lambda: None).topics_of_all) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
async def test_topics_are_looked_at_when_they_are_old_or_it_is_to_join(
    *, is_old: bool, joins: bool, by_group: bool
) -> None:
    world = World(group_id="g")
    world.subscription.by_group, world.must_join = by_group, joins
    world.made._topics_old_at_s = 0.0 if is_old else float("inf")
    world.old_s = -1.0
    await world.made._prepare()
    names = [it if isinstance(it, str) else it[0] for it in world.log]
    looks = by_group and (is_old or joins)
    assert ("refresh" in names, "go on" in names) == (looks, by_group)


# -- positions --------------------------------------------------------------------------------------------------------


class Offsets:
    """In the place of what asks a cluster for offsets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.found: dict[TopicPartition, OffsetAndTimestamp] = {}
        self.failures: dict[TopicPartition, Exception] = {}
        self.asked: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None
        monkeypatch.setattr(module, "fetch_committed", self.fetch_committed)
        monkeypatch.setattr(module, "list_offsets_that_can_be_had", self.list)

    async def fetch_committed(self, _: object, group: str, missing: object, *, require_stable: bool) -> Any:
        self.asked.append((group, missing, require_stable))
        self.meanwhile()
        return self.committed

    async def list(self, _: object, wanted: Mapping[Any, int], *, isolation_level: object, timeout_ms: int) -> Any:
        self.asked.append((dict(wanted), isolation_level, timeout_ms))
        self.meanwhile()
        return self.found, self.failures


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_positions_are_those_of_the_group_and_else_what_the_reset_says(
    monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    offsets = Offsets(monkeypatch)
    world = World(group_id="g", isolation_level=isolation, auto_offset_reset="earliest")
    world.subscription.set_partitions([P, Q, R])
    world.subscription.seek(R, 9)
    offsets.committed = {P: OffsetAndMetadata(5, "", 2), R: OffsetAndMetadata(1)}
    offsets.found = {Q: OffsetAndTimestamp(3, -1, 1)}
    await world.made.find_positions()
    stable = isolation == "read_committed"
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    assert offsets.asked == [("g", [P, Q], stable), ({Q: -2}, level, 0)]
    positions = {P: OffsetAndMetadata(5, "", 2), Q: OffsetAndMetadata(3), R: OffsetAndMetadata(9)}
    assert world.subscription.positions() == positions


async def test_who_moves_meanwhile_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, world = Offsets(monkeypatch), World(group_id="g")
    world.subscription.set_partitions([P, Q])
    offsets.committed = {P: OffsetAndMetadata(5), Q: OffsetAndMetadata(6)}
    offsets.meanwhile = lambda: world.subscription.seek(P, 77)
    await world.made.find_positions()
    assert world.subscription.positions() == {P: OffsetAndMetadata(77), Q: OffsetAndMetadata(6)}


async def test_a_time_behind_all_records_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, world = Offsets(monkeypatch), World(auto_offset_reset="latest")
    world.subscription.set_partitions([P, Q])
    world.subscription.seek_to_timestamp(Q, 123)
    offsets.found = {P: OffsetAndTimestamp(4, -1, 1), Q: OffsetAndTimestamp(-1, -1, -1)}
    await world.made.find_positions()
    assert offsets.asked == [({P: -1, Q: 123}, IsolationLevel.READ_UNCOMMITTED, 0)]
    assert world.subscription.positions() == {P: OffsetAndMetadata(4)}
    assert world.subscription.to_reset() == {Q: -1}


# -- commits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stale", "code", "tries", "pauses"),
    [
        (0, None, 1, []),
        (2, None, 3, [0, 1]),
        (MOST_EPOCHS - 1, None, MOST_EPOCHS, list(range(MOST_EPOCHS - 1))),
        (MOST_EPOCHS, ErrorCode.STALE_MEMBER_EPOCH, MOST_EPOCHS, list(range(MOST_EPOCHS - 1))),
        (1, ErrorCode.GROUP_AUTHORIZATION_FAILED, 2, [0]),
    ],
)
async def test_a_commit_is_tried_with_each_epoch_up_to_ten(
    monkeypatch: pytest.MonkeyPatch, stale: int, code: ErrorCode | None, tries: int, pauses: list[float]
) -> None:
    world, as_whom, paused = World(group_id="g"), list[Membership](), list[float]()
    world.subscription.by_group = True

    async def commit(_: object, group: str, offsets: object, membership: Membership) -> None:
        assert (group, offsets) == ("g", {P: OffsetAndMetadata(3)})
        as_whom.append(membership)
        if len(as_whom) <= stale:
            world.membership = world.membership.replace(generation=world.membership.generation + 1)
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
        if code is not None:
            raise KafkaError(code)

    async def sleep(pause_s: float) -> None:
        paused.append(pause_s)

    monkeypatch.setattr(module, "commit", commit)
    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, sleep=sleep))
    if code is None:
        await world.made.commit({P: OffsetAndMetadata(3)})
    else:
        with pytest.raises(KafkaError, match=code.name):
            await world.made.commit({P: OffsetAndMetadata(3)})
    assert [one.generation for one in as_whom] == list(range(1, tries + 1))
    assert paused == pauses


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_member", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
async def test_who_leaves_gives_up_first_and_says_so_whatever_the_listener_raises(
    *, is_member: bool, fails: bool, by_group: bool
) -> None:
    world = World(group_id="g", enable_auto_commit=False)
    world.subscription.set_partitions([P, Q])
    world.subscription.by_group, world.is_member = by_group, is_member
    world.failures = [ValueError("the application's")] if fails else []
    if by_group and is_member and fails:
        with pytest.raises(ValueError, match="the application's"):
            await world.made.leave("over")
    else:
        await world.made.leave("over")
    given: list[Any] = [("give up", [P, Q])] if is_member else []
    assert world.log == (["stop", *given, ("leave", "over")] if by_group else [])


async def test_the_end_leaves_nothing_under_way() -> None:
    world = World(group_id="g")
    forever = asyncio.Event()
    world.made._running = running = asyncio.create_task(forever.wait())  # type: ignore[assignment]
    world.made._committing = committing = asyncio.create_task(forever.wait())  # type: ignore[assignment]
    await world.made.end()
    assert world.log == ["stop", "close"]
    assert (running.cancelled(), committing.cancelled(), world.made._running) == (True, True, None)

    async def fails() -> None:
        raise ValueError("no")

    world.stop = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="no"):
        await world.made.end()
    assert world.log[2:] == ["close"], "no heartbeat says that this member lives"
    alone = World()
    await alone.made.end()
    assert alone.log == []
