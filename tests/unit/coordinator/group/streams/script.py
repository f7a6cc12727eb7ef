"""Scenarios of streams groups in lines: what a group has at first, who says what, what it is told, and what is written.

`s1:0,1` are tasks 0_0 and 0_1 of the subtopology s1, which reads the topic `foo`; s2 reads `bar`. A `/` stands before
standby tasks. `10/9` is a member's epoch, and the one before it. What an assignor says is prepared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from tests.unit.coordinator.group.streams.bench import AT_ONCE, GROUP, Bench

from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.records import key_version_of
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.streams import assigning
from penstock.coordinator.group.streams.assignors.spec import STANDBY_REPLICAS, Spec, Targets
from penstock.coordinator.group.streams.assignors.tasks import Roles, Tasks
from penstock.coordinator.group.streams.records import ASSIGNMENT, CURRENT, KEYS, MEMBER, TARGET, TOPOLOGY
from penstock.coordinator.group.streams.records import GROUP as EPOCH
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.coordinator.group.streams.values import Current, GroupEpoch, Held, Member, topology_of
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    Topology,
)

STATES: Final = {"stable": 1, "unrevoked": 2, "unreleased": 3}
NAMES: Final = {number: name for name, number in STATES.items()}
BOTH: Final = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="s1", source_topics=["foo"]),
        Subtopology(subtopology_id="s2", source_topics=["bar"]),
    ],
)
ONE: Final = Topology(epoch=0, subtopologies=BOTH.subtopologies[:1])
DELAYED: Final = 5


class Is(NamedTuple):
    """A member as the log has it."""

    has: str = ""
    epochs: str = "10/9"
    state: str = "stable"
    gives: str = ""
    target: str | None = None
    """As what it has, if nothing is said."""
    instance: str | None = None
    process: str = "p"
    rack: str | None = None


class Beat(NamedTuple):
    """A heartbeat, and what comes of it."""

    member: str
    epoch: int
    hears: str | ErrorCode
    """The epoch, and the tasks if any are said; or an error."""
    wrote: Sequence[str] | None = None
    """Not compared if nothing is said."""
    said: str | None = None
    statuses: Sequence[int] = ()
    fields: Mapping[str, Any] = {}
    fails: bool = False
    """What is written cannot be written."""


class Wait(NamedTuple):
    ms: int
    wrote: Sequence[str] = ()


class Scenario(NamedTuple):
    steps: Sequence[Beat | Wait | Mapping[str, str]]
    """A mapping is what the assignor says from there on."""
    members: Mapping[str, Is] = {}
    epoch: int = 10
    topics: Mapping[str, int] = {"foo": 6, "bar": 3}
    topology: Topology | None = BOTH
    settings: GroupSettings = AT_ONCE
    state: str | None = None
    """Of the group, in the end."""
    is_new: bool = False
    known: Mapping[str, int] | None = None
    """The topics when the last epoch began, if they were others."""
    configs: tuple[tuple[str, str], ...] = ((STANDBY_REPLICAS, "0"),)


def tasks(text: str) -> Tasks:
    return {name: tuple(map(int, some.split(","))) for name, some in re.findall(r"(\w+):([\d,]+)", text)}


def roles(text: str) -> Roles:
    active, _, standby = text.partition("/")
    return Roles(tasks(active), tasks(standby))


def _task_ids(some: Tasks) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=name, partitions=list(one)) for name, one in some.items()
    ]


def held(text: str, epoch: int) -> Held:
    found = roles(text)
    return Held({name: dict.fromkeys(some, epoch) for name, some in found.active.items()}, found.standby)


class Script:
    def __init__(self, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scenario = scenario
        self.prepared: dict[str, str] = {}
        self.bench = Bench(scenario.settings, **(scenario.known or scenario.topics))
        monkeypatch.setattr(assigning, "assignor", lambda name, offered: self._assign)
        if not scenario.is_new:
            self._load()
        for name, count in scenario.topics.items() if scenario.known else ():
            self.bench.grow(name, count - scenario.known[name])  # type: ignore[index]

    def _assign(self, spec: Spec) -> Targets:
        return {member_id: roles(self.prepared.get(member_id, "")) for member_id in spec.members}

    def _load(self) -> None:
        scenario, bench = self.scenario, self.bench
        parts: list[tuple[object, int, str]] = []
        required: tuple[str, ...] = ()
        if scenario.topology is not None:
            topology = topology_of(scenario.topology)
            required = topology.required_topics
            parts.append((topology, TOPOLOGY, ""))
        is_ready = all(name in bench.image.topics for name in required)
        validated = scenario.topology.epoch if is_ready and scenario.topology is not None else -1
        metadata_hash = bench.shard.streams._house.topics.hash_of(required, 0) if required else 0
        parts.append((GroupEpoch(scenario.epoch, metadata_hash, validated, scenario.configs), EPOCH, ""))
        parts.append((AssignmentEpoch(scenario.epoch, 0), ASSIGNMENT, ""))
        for name, one in scenario.members.items():
            epoch, previous = map(int, one.epochs.split("/"))
            said = Member(one.instance, one.rack, "test", "/10.0.0.1", 1_500, 0, one.process)
            since = 0 if epoch < 0 else epoch
            current = Current(epoch, previous, STATES[one.state], held(one.has, since), held(one.gives, since))
            target = roles(one.has if one.target is None else one.target)
            parts += [(said, MEMBER, name), (target, TARGET, name), (current, CURRENT, name)]
        bench.shard = GroupShard(scenario.settings, Random(1), bench.image)
        for value, key, name in parts:
            bench.shard.read(*StreamsRecord(GROUP, value, key, name).encode())
        bench.take(bench.shard.loaded(bench.now_ms))

    def play(self) -> None:
        for number, step in enumerate(self.scenario.steps):
            known, said = len(self.bench.log), f"step {number}, {step}"
            if isinstance(step, Beat):
                self._beat(step, said)
            elif isinstance(step, Wait):
                self.bench.advance(step.ms)
            else:
                assert isinstance(step, Mapping)
                self.prepared = dict(step)
                continue
            wrote = [line for append in self.bench.log[known:] for line in map(told, append.records) if line]
            if step.wrote is not None:
                assert wrote == list(step.wrote), said
        if self.scenario.state is not None:
            assert self.bench.streams.committed.state == self.scenario.state

    def _beat(self, step: Beat, said: str) -> None:
        fields: dict[str, Any] = {}
        if step.epoch == 0:
            fields = {"rebalance_timeout_ms": 1_500, "topology": self.scenario.topology, "process_id": "p"}
        if step.epoch == 0 or step.said is not None:
            owned = roles(step.said or "")
            fields |= {"active_tasks": _task_ids(owned.active), "standby_tasks": _task_ids(owned.standby)}
            fields["warmup_tasks"] = []
        self.bench.holds = step.fails
        answer = self.bench.beat(step.member, step.epoch, **(fields | dict(step.fields)))
        if step.fails:
            self.bench.fail()
            self.bench.holds = False
            answer = self.bench.replies[step.member, step.epoch].response
        if isinstance(step.hears, ErrorCode):
            assert ErrorCode(answer.error_code) is step.hears, said
            return
        epoch, _, some = step.hears.partition(" ")
        assert (answer.error_code, answer.member_epoch) == (0, int(epoch)), f"{said}: {answer}"
        assert [one.status_code for one in answer.status] == list(step.statuses), said
        if some:
            assert answer.active_tasks is not None, said
            active, standby, _ = self.bench.runs[step.member]
            assert roles(some) == Roles(*({name: (*one,) for name, one in part.items()} for part in (active, standby)))
        else:
            assert answer.active_tasks is None, said


# -- records in lines -------------------------------------------------------------------------------------------------


def told(record: tuple[bytes, bytes | None]) -> str:
    """Empty for what the history says."""
    key = key_version_of(record[0])
    if key not in KEYS:
        return ""
    found = StreamsRecord.decode(key, *record)
    assert isinstance(found, StreamsRecord)
    what = {MEMBER: "member", TOPOLOGY: "topology", EPOCH: "epoch", TARGET: "target", ASSIGNMENT: "assignment"}
    head = f"{what.get(key, 'current')} {found.name}".strip()
    return f"-{head}" if found.value is None else f"{head} {_detail(found.value)}".strip()


def _detail(value: Any) -> str:
    match value:
        case GroupEpoch():
            return f"{value.epoch}" if value.validated_topology_epoch >= 0 else f"{value.epoch} not ready"
        case AssignmentEpoch():
            return f"{value.epoch}" if value.timestamp_ms else f"{value.epoch} at once"
        case Current():
            gives = " ".join(f"-{one}" for one in _since(value.revoking.active))
            words = (f"{value.epoch}/{value.previous_epoch}", NAMES[value.state], *_since(value.assigned.active), gives)
            return " ".join(word for word in words if word)
        case Member():
            return " ".join(filter(None, (value.instance_id, value.process_id if value.process_id != "p" else "")))
        case Roles():
            return " ".join(f"{name}:{','.join(map(str, some))}" for name, some in value.active.items())
    return ""


def _since(active: Mapping[str, Mapping[int, int]]) -> list[str]:
    return [
        f"{name}:" + ",".join(f"{one}@{epoch}" for one, epoch in sorted(since.items()))
        for name, since in sorted(active.items())
    ]
