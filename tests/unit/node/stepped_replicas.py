"""The replicas of a node of which a test asks single steps: what they call is noted, nothing is on a disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.unit.node.on_disk import NODE_ID
from tests.unit.node.stepped_delivery import Told

from penstock.node.partitions.backlog import PutOff
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replicas import LocalReplicas
from penstock.replication.committed import Committed

ID = UUID(int=7)
OTHER_ID = UUID(int=8)
PLACE, ELSEWHERE = UUID(int=1_001), UUID(int=1_002)


class One(IsrPartition):
    """A replica of `t`, which notes what it is told."""

    def __init__(self, told: Told, index: int = 0, topic_id: UUID = ID, parent: str = "/a") -> None:
        self.topic, self.index, self.topic_id = "t", index, topic_id
        self.log = cast("Any", log_of(index, parent, told))
        self.told, self.leader_epoch = told, 4
        self.leader = None
        self.high_watermark_was = 0
        self.committed = Committed(6)

    def end(self) -> None:
        self.told.append(("ends", self.index))

    def resign(self) -> None:
        self.told.append(("resigns", self.index))

    def deliver(self, turns: object) -> None:
        self.told.append(("delivers", self.index))

    def stop_delivering(self) -> None:
        self.told.append(("delivers no more", self.index))

    def on_log_start_moved(self) -> None:
        self.told.append(("begins later", self.index))

    @property
    def min_insync_replicas(self) -> int:
        return 1

    @min_insync_replicas.setter
    def min_insync_replicas(self, count: int) -> None:
        self.told.append(("needs in sync", self.index, count))


def log_of(index: int = 0, parent: str = "/a", told: Told | None = None) -> Any:
    told = Told() if told is None else told
    log = SimpleNamespace(topic="t", partition=index, parent=parent, is_lent=False, is_untouched=True, config="old")
    log.health = SimpleNamespace(failure=None)
    log.abandon, log.retire_below_start = told.does("abandoned"), told.does("retired below", 3)
    log.back = []

    def when_back(go_on: Any) -> bool:
        log.back += [go_on] if log.is_lent else []
        return bool(log.is_lent)

    log.when_back = when_back
    return log


class Table:
    def __init__(self, *held: Any, untouched: tuple[tuple[UUID, Any], ...] = ()) -> None:
        self.held, self.waiting, self.told = list(held), list(untouched), Told()
        self.remove, self.add = self.told.does("removed"), self.told.does("added")
        self.add_untouched, self.forget_untouched = self.told.does("untouched"), self.told.does("forgotten")
        self.forget_name = self.told.does("nameless")

    def __iter__(self) -> Any:
        return iter(self.held)

    def of_topic(self, topic: Any) -> list[Any]:
        return [one for one in self.held if topic in (one.topic, one.topic_id)]

    def get(self, topic: Any, index: int) -> Any:
        return next((one for one in self.of_topic(topic) if one.index == index), None)

    def untouched(self) -> list[Any]:
        return list(self.waiting)

    def untouched_of(self, topic_id: UUID) -> list[Any]:
        return [log for of, log in self.waiting if of == topic_id]

    def get_untouched(self, topic_id: UUID, index: int) -> Any:
        return next((log for log in self.untouched_of(topic_id) if log.partition == index), None)


def image_of(*replicas: int, leader: int = NODE_ID, place: UUID = PLACE) -> Any:
    return SimpleNamespace(replicas=replicas or (NODE_ID,), leader=leader, directory_of=lambda node_id: place)


def topic_of(*partitions: Any, **changes: Any) -> Any:
    fields = {"name": "t", "topic_id": ID, "has_replicas": True, "by_consensus": False} | changes
    return SimpleNamespace(partitions=dict(enumerate(partitions)), **fields)


def replicas_of(told: Told, table: Table | None = None, topic: Any = None, **changes: Any) -> Any:
    """Replicas of one topic, or of none."""
    made: Any = LocalReplicas.__new__(LocalReplicas)
    topics = [] if topic is None else [topic]
    table = Table() if table is None else table
    table.told = told
    for name, what in (
        ("remove", "removed"), ("add", "added"), ("add_untouched", "untouched"), ("forget_untouched", "forgotten"),
        ("forget_name", "nameless"),
    ):  # fmt: skip
        setattr(table, name, told.does(what))
    vars(made).update(
        _node_id=NODE_ID, _alone=(NODE_ID,), _table=table, _now_ms=lambda: 1_000, offline={}, misplaced={},
        _late=PutOff(told.does("again"), lambda: 1_000),
        _high_watermarks={}, in_sync="in sync",
        _image=SimpleNamespace(
            topics={one.name: one for one in topics}, topics_by_id={one.topic_id: one for one in topics},
            config_of=lambda kind, name: name,
        ),
        _directories=SimpleNamespace(
            logs={}, futures={}, roots=SimpleNamespace(for_data=["/a", "/b"], offline={}), id_of=lambda log: PLACE,
            create=told.does("created", log_of()), claim=told.does("claimed", True), delete=told.does("deleted"),
        ),
        _settings=SimpleNamespace(
            settings=lambda config: SimpleNamespace(log=f"log of {config}", min_insync_replicas=2),
            forget=told.does("forget settings"),
        ),
        _todo=SimpleNamespace(
            extend=lambda keys: told.append(("to do", list(keys))), work=told.does("work"), stop=told.does("stop"),
            clear=told.does("nothing to do"),
        ),
        _upkeep=SimpleNamespace(
            forget=told.does("kept up no more"), watch=told.does("watched"), remember=told.does("remembered"),
            retired=told.does("retired"), turns="turns", flush="flush", dirty={},
        ),
        fetchers=SimpleNamespace(leave=told.does("left"), follow=told.does("followed")),
        awaited=SimpleNamespace(led=told.does("led")), throttles=SimpleNamespace(apply=told.does("throttled")),
        has_settled=told.does("settled"), dropped=told.does("dropped"), found_misplaced=told.does("misplaced"),
        _groups=SimpleNamespace(group_of=lambda topic_id: None),
    )  # fmt: skip
    vars(made).update(changes)
    return made
