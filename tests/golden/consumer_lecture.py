"""The language of the transcripts of consumer groups: one shard, a log that commits at once unless told to hold.

topic NAME PARTITIONS                   a new topic, or more partitions of one; its name is one letter
join MEMBER [NAME …] [instance=ID] [expression=TEXT]
beat MEMBER [owns=a:0,1;b:2 | owns=] [epoch=N]      with the epoch that it was told last, by default
leave MEMBER | away MEMBER              for good; a static member for a while
describe | advance MS | restart | anew              as another coordinator reads the log; as one of an empty log
hold | commit | fail                    writes wait; let them happen; let them fail
come-back                               what is worked out elsewhere is there
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from tests.golden.group_lecture import Words
from tests.golden.told import told as told_in
from tests.unit.coordinator.group.consumer.bench import Bench, told

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.consumer.records import ASSIGNMENT, CURRENT, EXPRESSION, GROUP, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.records import HISTORY_KEY_VERSION, key_version_of
from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.protocol.errors import ErrorCode

STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
Partitions = Mapping[str, list[int]]


class ConsumerLecture(Bench):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.epochs: dict[str, int] = {}
        self.instances: dict[str, str | None] = {}
        super().__init__(GroupSettings(consumer=ConsumerSettings(assignment_interval=Bounded(0, 0, 0))))

    def handle(self, line: str) -> Iterator[str]:
        name, *rest = line.split()
        getattr(self, "do_" + name.replace("-", "_"))(Words(rest))
        said, self.said = self.said, []
        yield from said

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.said += (f"   append {shown(key, value)}" for key, value in effect.records)
            elif isinstance(effect, Reply):
                self.said.append(f"-> {self._answer(effect.token, effect.response)}")
        super().take(effects)

    def _answer(self, token: Any, response: Any) -> str:
        member = token[0]
        if response.error_code:
            return f"{member}: {ErrorCode(response.error_code).name}"
        self.epochs[member] = response.member_epoch
        has = told(response)
        return f"{member}: epoch {response.member_epoch}" + ("" if has is None else f", has {listed(has)}")

    # -- commands -----------------------------------------------------------------------------------------------------

    def do_anew(self, words: Words) -> None:
        ConsumerLecture.__init__(self)

    def do_topic(self, words: Words) -> None:
        self.grow(words.plain[0], int(words.plain[1]))

    def do_join(self, words: Words) -> None:
        member, *topics = words.plain
        self.instances[member] = words.text("instance")
        expression = words.text("expression")
        self.join(member, *topics, instance_id=self.instances[member], subscribed_topic_regex=expression)

    def do_beat(self, words: Words) -> None:
        member = words.plain[0]
        owned = words.named.get("owns")
        parts = None if owned is None else [part.split(":") for part in owned.split(";") if part]
        partitions = None if parts is None else {name: [int(one) for one in text.split(",")] for name, text in parts}
        self.beat(member, words.number("epoch", self.epochs.get(member, 0)), partitions)

    def do_leave(self, words: Words) -> None:
        self.beat(words.plain[0], -1)

    def do_away(self, words: Words) -> None:
        self.beat(words.plain[0], -2, instance_id=self.instances[words.plain[0]])

    def do_advance(self, words: Words) -> None:
        self.advance(int(words.plain[0]))

    def do_restart(self, words: Words) -> None:
        self.errands.clear()
        self.restart()

    def do_hold(self, words: Words) -> None:
        self.holds = True

    def do_commit(self, words: Words) -> None:
        self.holds = False
        self.commit()

    def do_fail(self, words: Words) -> None:
        self.holds = False
        self.fail()

    def do_come_back(self, words: Words) -> None:
        self.come_back()

    def do_describe(self, words: Words) -> None:
        group = self.described()
        self.said.append(f"{group.group_state}, group epoch {group.group_epoch}, assignment {group.assignment_epoch}")
        for one in group.members:
            has, goal = ({t.topic_name: t.partitions for t in it.topic_partitions} for it in _assignments(one))
            self.said.append(
                f"  {one.member_id} at epoch {one.member_epoch} has {listed(has)}, is to have {listed(goal)}"
            )


def _assignments(member: Any) -> tuple[Any, Any]:
    return member.assignment, member.target_assignment


def listed(partitions: Mapping[str, Any]) -> str:
    return " ".join(f"{name}:{','.join(map(str, indexes))}" for name, indexes in partitions.items()) or "nothing"


def by_name(partitions: Mapping[UUID, Any]) -> dict[str, Any]:
    return {chr(topic.int): indexes for topic, indexes in partitions.items()}


def shown(key: bytes, data: bytes | None) -> str:
    if key_version_of(key) == HISTORY_KEY_VERSION:
        return told_in(data)
    record = ConsumerRecord.decode(key_version_of(key), key, data)
    value, name = record.value, record.name
    kinds = {GROUP: "group", MEMBER: "member", ASSIGNMENT: "assignment", TARGET: "target", CURRENT: "current"}
    kind = " ".join(filter(None, (kinds.get(record.key, "expression"), name)))
    if value is None:
        return f"{kind}: none"
    if record.key in (GROUP, ASSIGNMENT):
        return f"{kind}: epoch {value.epoch}"
    if record.key == MEMBER:
        return f"{kind}: reads {' '.join(value.topics) or value.pattern or 'nothing'}"
    if record.key == TARGET:
        return f"{kind}: {listed(by_name(value))}"
    if record.key == EXPRESSION:
        return f"{kind}: {' '.join(value.topics)}"
    gives = f", gives up {listed(by_name(value.revoking))}" if value.revoking else ""
    return f"{kind}: epoch {value.epoch}, {STATES[value.state]}, has {listed(by_name(value.assigned))}{gives}"
