"""What a group finds out at once about its members is what a look through all of its records says."""

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.group.consumer import records as consumers
from penstock.coordinator.group.consumer.records import ClassicMemberMetadata, ClassicProtocol
from penstock.coordinator.group.consumer.state import ConsumerState
from penstock.coordinator.group.consumer.values import Current, Resolved, Subscription
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.share import records as shares
from penstock.coordinator.group.share.state import ShareGroupState
from penstock.coordinator.group.share.values import Subscription as ShareSubscription
from penstock.coordinator.group.streams import records as streams
from penstock.coordinator.group.streams.state import StreamsState
from penstock.coordinator.group.streams.values import Current as StreamsCurrent
from penstock.coordinator.group.streams.values import Held, Member, Subtopology, Topology

STEPS = 400
MEMBERS = ("m", "n", "o", "p")
TOPICS = ("a", "b", "c")
IDS = tuple(UUID(int=number) for number in (1, 2))
PLACES = [(topic, index) for topic in IDS for index in (0, 1, 2)]


def some(random: Random, of: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(random.sample(of, random.randrange(len(of) + 1)))


# -- the consumer protocol --------------------------------------------------------------------------------------------


def subscription(random: Random) -> Subscription:
    names = some(random, ("range", "sticky", "own"))
    classic = ClassicMemberMetadata(supported_protocols=[ClassicProtocol(name=name) for name in (*names, *names)])
    return Subscription(
        instance_id=random.choice([None, "i", "j"]),
        topics=some(random, TOPICS),
        pattern=random.choice([None, "", "x.*", "y.*"]),
        assignor=random.choice([None, "uniform", "range"]),
        classic=random.choice([None, classic]),
    )


def owned(random: Random, free: list[tuple[UUID, int]]) -> dict[UUID, dict[int, int]]:
    found: dict[UUID, dict[int, int]] = {}
    for _ in range(random.randrange(3)):
        if free:
            topic, index = free.pop(random.randrange(len(free)))
            found.setdefault(topic, {})[index] = random.randrange(9)
    return found


def consumer_step(random: Random, state: ConsumerState) -> None:
    name = random.choice(MEMBERS)
    kind = random.choice((consumers.MEMBER, consumers.CURRENT, consumers.EXPRESSION))
    value: Any = None
    if kind == consumers.EXPRESSION:
        name = random.choice(("x.*", "y.*"))
        value = Resolved(some(random, TOPICS), 0, 0)
    elif kind == consumers.MEMBER:
        value = subscription(random)
    else:
        others = [state.current(one) for one in state.currents if one != name]
        taken = {
            (topic, index)
            for one in others
            for part in (one.assigned, one.revoking)
            for topic, found in part.items()
            for index in found
        }
        free = [place for place in PLACES if place not in taken]
        value = Current(assigned=owned(random, free), revoking=owned(random, free))
    state.put(kind, name, value if random.random() < 0.7 else None)


def check_consumers(state: ConsumerState) -> None:
    members = state.members.values()
    named = {topic for one in members for topic in one.topics}
    matched = {topic for one in state.expressions.values() for topic in one.topics}
    assert state.topics == sorted(named | matched)
    assert [state.reads(topic) for topic in TOPICS] == [topic in named | matched for topic in TOPICS]
    patterns = Counter(one.pattern for one in members if one.pattern)
    assert {name: state.readers(name) for name in ("x.*", "y.*")} == {name: patterns[name] for name in ("x.*", "y.*")}
    assert set(state.wanted_expressions) == set(patterns)
    assert state.assignor_counts == Counter(one.assignor for one in members if one.assignor is not None)
    classic = [one.classic for one in members if one.classic is not None]
    assert state.classic_members == len(classic)
    for names in (("range",), ("sticky", "own"), ()):
        supported = [all(name in {it.name for it in one.supported_protocols} for one in classic) for name in names]
        assert state.supports(names) is any(supported)
    assert state.owners == {
        (topic, index): name
        for name, one in state.currents.items()
        for part in (one.assigned, one.revoking)
        for topic, found in part.items()
        for index in found
    }


def check_instances(state: ConsumerState | StreamsState) -> None:
    """All who bring an instance do so under one id."""
    for instance, name in state.static_ids.items():
        assert state.members[name].instance_id == instance


@pytest.mark.parametrize("seed", range(3))
def test_consumers(seed: int) -> None:
    random, state = Random(seed), ConsumerState()
    for _ in range(STEPS):
        consumer_step(random, state)
        check_consumers(state)
        check_instances(state)


# -- share groups -----------------------------------------------------------------------------------------------------


def test_shares() -> None:
    random, state = Random(5), ShareGroupState()
    for _ in range(STEPS):
        value = ShareSubscription(topics=some(random, TOPICS)) if random.random() < 0.7 else None
        state.put(shares.MEMBER, random.choice(MEMBERS), value)
        read = {topic for one in state.members.values() for topic in one.topics}
        assert state.topics == sorted(read)
        assert [state.reads(topic) for topic in TOPICS] == [topic in read for topic in TOPICS]


# -- streams groups ---------------------------------------------------------------------------------------------------


def held(random: Random) -> Held:
    def tasks() -> dict[str, tuple[int, ...]]:
        return {name: (random.randrange(2),) for name in some(random, ("0", "1"))}

    active = {name: dict.fromkeys(numbers, 3) for name, numbers in tasks().items()}
    return Held(active, tasks(), tasks())


def streams_step(random: Random, state: StreamsState) -> None:
    name, is_kept = random.choice(MEMBERS), random.random() < 0.7
    kind = random.choice((streams.MEMBER, streams.CURRENT, streams.CURRENT, streams.TOPOLOGY))
    value: Any = StreamsCurrent(assigned=held(random), revoking=held(random))
    if kind == streams.MEMBER:
        value = Member(instance_id=random.choice([None, "i"]), process_id=random.choice("pqr"))
    elif kind == streams.TOPOLOGY:
        name = ONE
        value = Topology(1, (Subtopology("0", source_topics=some(random, TOPICS)),))
    state.put(kind, name, value if is_kept else None)


def runners(state: StreamsState, role: str, task: tuple[str, int]) -> list[str]:
    return [
        name
        for name, one in state.currents.items()
        if any(task[1] in getattr(part, role).get(task[0], ()) for part in (one.assigned, one.revoking))
    ]


def check_streams(state: StreamsState) -> None:
    processes = {name: one.process_id for name, one in state.members.items()}
    for task in (("0", 0), ("0", 1), ("1", 0), ("1", 1)):
        active = runners(state, "active", task)
        runner = state.active_runner(task)
        assert (runner in active) if active else runner == ""
        assert state.active_process(*task) == (processes.get(runner, "") if active else None)
        standby, warmup = (
            frozenset(processes.get(name, "") for name in runners(state, role, task)) for role in ("standby", "warmup")
        )
        assert (state.standby_processes(*task), state.warmup_processes(*task)) == (standby, warmup)
    sources = {} if state.topology is None else state.topology.source_of
    assert [state.subtopology_of(topic) for topic in TOPICS] == [sources.get(topic) for topic in TOPICS]
    assert [state.reads(topic) for topic in TOPICS] == [bool(state.members) and topic in sources for topic in TOPICS]


@pytest.mark.parametrize("seed", range(3))
def test_streams(seed: int) -> None:
    random, state = Random(seed), StreamsState()
    for _ in range(STEPS):
        streams_step(random, state)
        check_streams(state)
        check_instances(state)
