"""Who gets which tasks: rows are cases of Kafka's tests of its assignor; what holds of all is in `workers.py`."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pytest
from tests.unit.coordinator.group.streams.workers import ONE, Some, check, counts, spec, tasks, worker

from penstock.coordinator.group.streams.assignors.spec import Spec, Targets, Worker
from penstock.coordinator.group.streams.assignors.sticky import assign


class Row(NamedTuple):
    given: Spec
    active: Mapping[str, Some] = {}
    """What members have in the end, no more and no less; all others may have anything."""
    standby: Mapping[str, Some] = {}
    keeps: Mapping[str, Some] = {}
    """What members have at least."""
    counts: Mapping[str, int] = {}
    """How many active tasks members have."""
    also: Callable[[Targets], bool] = lambda targets: True


def new(*processes: str) -> dict[str, Worker]:
    """A member for each of these, numbered where a process comes again."""
    found: dict[str, Worker] = {}
    for process in processes:
        again = sum(one.process_id == process for one in found.values())
        found[f"{process}_{again + 1}" if again else process] = worker(process)
    return found


def in_process(targets: Targets, process: str) -> dict[str, set[int]]:
    """The active tasks of its members, which are called like it."""
    found: dict[str, set[int]] = {}
    for member_id, roles in targets.items():
        if member_id.split("_")[0] == process:
            for subtopology, partitions in roles.active.items():
                found.setdefault(subtopology, set()).update(partitions)
    return found


def in_all(targets: Targets) -> list[int]:
    return [sum(map(len, (*roles.active.values(), *roles.standby.values()))) for _, roles in sorted(targets.items())]


TWO_EACH: Final = new("p1", "p1", "p2", "p2", "p3", "p3")
SIX: Final = new("p1", "p2", "p3", "p4", "p5", "p6")
FOUR: Final = new("p1", "p2", "p3", "p4")
FIVE: Final = new("p1", "p2", "p3", "p4", "p5")
TWELVE: Final = {"s0": 4, "s1": 4, "s2": 4}
OLD1: Final = worker("p1", {"s0": (1,), "s1": (2, 3)}, {"s0": (0,), "s1": (1,), "s2": (0, 1, 3)})
OLD2: Final = worker(
    "p2",
    {"s0": (0,), "s1": (1,), "s2": (2,)},
    {"s0": (1, 2, 3), "s1": (0, 2, 3), "s2": (0, 1, 3)},
)
EVERY: Final = (0, 1, 2, 3)
ROWS: Final = {
    "as many tasks as processes": Row(spec(new("p1", "p2", "p3"), 3), counts={"p1": 1, "p2": 1, "p3": 1}),
    "evenly": Row(spec(TWO_EACH, {"s1": 3, "s2": 3}), counts=dict.fromkeys(TWO_EACH, 1)),
    "evenly with standbys": Row(spec(TWO_EACH, {"s1": 3, "s2": 3}, 1), counts=dict.fromkeys(TWO_EACH, 1)),
    "stays": Row(spec({"a": worker("p1", [0]), "b": worker("p2", [1])}, 3), keeps={"a": [0], "b": [1]}),
    "stays where processes have other members": Row(
        spec({"b": worker("p2", [1]), "c": worker("p1", [2])}, 3), keeps={"b": [1], "c": [2]}
    ),
    "one task moves to a new process": Row(
        spec({"a": worker("p1", [0, 2]), "b": worker("p2", [1]), **new("p3")}, 3),
        keeps={"b": [1]},
        counts={"a": 1, "b": 1, "p3": 1},
    ),
    "a process with more members has more": Row(spec(new("p1", "p2", "p2"), 3), counts={"p1": 1, "p2": 1, "p2_2": 1}),
    "evenly with subtopologies of different sizes": Row(
        spec({"a": worker("p1", {"s1": (0, 1, 2, 3, 4, 5), "s2": (0,)}), **new("p2")}, {"s1": 6, "s2": 1}),
        counts={"a": 4, "p2": 3},
    ),
    "stays with more members than tasks": Row(
        spec({"a": worker("p1", [0]), "b": worker("p2", [2]), "c": worker("p3", [1]), **new("p4", "p5")}, 3),
        active={"a": [0], "b": [2], "c": [1], "p4": (), "p5": ()},
    ),
    "stays with more members than tasks, in between": Row(
        spec({**new("p1", "p3"), "b": worker("p2", [0]), "d": worker("p4", [2]), "e": worker("p5", [1])}, 3),
        active={"p1": (), "b": [0], "p3": (), "d": [2], "e": [1]},
    ),
    "standbys become active": Row(
        spec({"a": worker("p1", (), [2]), "b": worker("p2", (), [1]), "c": worker("p3", (), [0])}, 3),
        active={"a": [2], "b": [1], "c": [0]},
    ),
    "who gets it active does not keep it as a standby": Row(
        spec({"a": worker("p1", (), [0]), "b": worker("p2", (), [1])}, 2, 1),
        active={"a": [0], "b": [1]},
        standby={"a": [1], "b": [0]},
    ),
    "who has room takes what others have as a standby": Row(
        spec({"a": worker("p1", [0], [1]), "b": worker("p2", [2], [1]), "b_2": worker("p2")}, 3),
        active={"a": [0], "b": [2], "b_2": [1]},
    ),
    "standbys are elsewhere": Row(
        spec({name: worker(name, [number]) for number, name in enumerate(FOUR)}, 4, 1),
        also=lambda targets: sum(bool(roles.standby) for roles in targets.values()) >= 3 and max(in_all(targets)) <= 3,
    ),
    "two standbys": Row(
        spec({name: worker(name, [number]) for number, name in enumerate(new("p1", "p2", "p3"))}, 3, 2),
        standby={"p1": [1, 2], "p2": [0, 2], "p3": [0, 1]},
    ),
    "no standby without another process": Row(spec(new("p1"), 1, 1), standby={"p1": ()}),
    "active tasks and standbys": Row(spec(new("p1", "p2", "p3"), 3, 1)),
    "something for each process": Row(
        spec(new("p1", "p1", "p1", "p2", "p3"), 3),
        counts={"p2": 1, "p3": 1},
        also=lambda targets: len(in_process(targets, "p1")[ONE]) == 1,
    ),
    "more members than tasks": Row(spec(SIX, 3), also=lambda targets: max(counts(targets).values()) == 1),
    "active tasks and standbys side by side": Row(spec(SIX, 3, 1), also=lambda targets: set(in_all(targets)) == {1}),
    "a process of two members has twice as much": Row(
        spec(new("p1", "p2", "p2"), {"s0": 3, "s1": 3, "s2": 3, "s3": 3}), counts={"p1": 4, "p2": 4, "p2_2": 4}
    ),
    "one had everything, and there is one for each": Row(
        spec({**FOUR, "p3": worker("p3", EVERY)}, 4), counts=dict.fromkeys(FOUR, 1)
    ),
    "one had everything, and there is more than one for each": Row(
        spec({**new("p1", "p2"), "p3": worker("p3", EVERY)}, 4), counts={"p1": 1, "p2": 1, "p3": 2}
    ),
    "one had everything, and there comes a process of two": Row(
        spec({"a": worker("p2", [0, 3, 2]), **new("p3", "p3")}, 3), counts={"a": 1, "p3": 1, "p3_2": 1}
    ),
    "only what is too much moves": Row(
        spec({"a": worker("p1", [0, 2]), "b": worker("p2", [1, 3]), **new("p3")}, 4),
        counts={"p3": 1},
        also=lambda targets: targets["a"].active == {ONE: (0, 2)} or targets["b"].active == {ONE: (1, 3)},
    ),
    "new tasks move no old ones": Row(
        spec({"a": worker("p1", [0, 1]), "b": worker("p2", [2, 3])}, 6), keeps={"a": [0, 1], "b": [2, 3]}
    ),
    "new tasks go to the new member": Row(
        spec({"a": worker("p1", [2, 1]), "b": worker("p2", [0, 3]), **new("p3")}, 6),
        active={"a": [1, 2], "b": [0, 3], "p3": [4, 5]},
    ),
    "what nobody had active goes to a new member with standbys": Row(
        spec(
            {
                "a": OLD1,
                "b": OLD2,
                "c": worker("p3", {"s2": (0, 1, 3)}, {"s0": (2,), "s1": (2,)}),
                "d": worker("p4", (), {"s0": EVERY, "s1": EVERY, "s2": EVERY}),
            },
            TWELVE,
        ),
        active={
            "a": OLD1.held.active,
            "b": OLD2.held.active,
            "c": {"s2": (0, 1, 3)},
            "d": {"s0": (2, 3), "s1": (0,)},
        },
    ),
    "what nobody had active goes to new members with standbys": Row(
        spec(
            {
                "a": OLD1,
                "b": OLD2,
                "c": worker("p3", (), {"s2": (0, 1, 3)}),
                "d": worker("p4", (), {"s0": (2, 3), "s1": (0,)}),
            },
            TWELVE,
        ),
        active={
            "a": OLD1.held.active,
            "b": OLD2.held.active,
            "c": {"s2": (0, 1, 3)},
            "d": {"s0": (2, 3), "s1": (0,)},
        },
    ),
    "a new member takes one of two": Row(spec({"a": worker("p1", [1, 2]), **new("p2")}, 2), counts={"a": 1, "p2": 1}),
    "old members exchange nothing": Row(
        spec({"a": worker("p1", [0, 1, 2]), "b": worker("p2", [3, 4, 5]), **new("p3")}, 6),
        counts={"a": 2, "b": 2, "p3": 2},
        also=lambda targets: {*targets["a"].active[ONE]} < {0, 1, 2} and {*targets["b"].active[ONE]} < {3, 4, 5},
    ),
    "old members exchange nothing with those that come back": Row(
        spec({"a": worker("p1", [0, 1, 2, 6]), "b": worker("p2", (), [3, 4, 5]), **new("p3")}, 7),
        counts={"a": 3, "b": 2, "p3": 2},
        also=lambda targets: {*targets["a"].active[ONE]} < {0, 1, 2, 6} and {*targets["b"].active[ONE]} < {3, 4, 5},
    ),
    "many tasks with standbys": Row(spec(FIVE, 100, 2), counts=dict.fromkeys(FIVE, 20)),
    "an odd number of members": Row(
        spec(new(*(f"p{number}" for number in range(7))), 14, 1), counts={"p3": 2, "p6": 2}
    ),
    "more standbys wanted than there are processes": Row(spec(new("p1", "p2", "p3"), 6, 5)),
    "many subtopologies": Row(spec(FOUR, {f"s{number}": 5 for number in range(10)}, 1)),
    "standbys wanted, and one process": Row(spec(new("p1"), 10, 3), counts={"p1": 10}, standby={"p1": ()}),
    "five standbys wanted, and two processes": Row(spec(new("p1", "p2"), 4, 5)),
    "a process joins two that have active tasks and standbys": Row(
        spec({"a": worker("p1", [0, 1], [2, 3]), "b": worker("p2", [2, 3], [0, 1]), **new("p3")}, 4, 1),
        also=lambda targets: set(counts(targets).values()) <= {1, 2} and max(in_all(targets)) <= 3,
    ),
    "one of each subtopology when a member comes": Row(
        spec({"a": worker("p1", {"s1": (0, 1), "s2": (0, 1)}), **new("p2")}, {"s1": 2, "s2": 2}, 1),
        active={"a": {"s1": (0,), "s2": (0,)}, "p2": {"s1": (1,), "s2": (1,)}},
        standby={"a": {"s1": (1,), "s2": (1,)}, "p2": {"s1": (0,), "s2": (0,)}},
    ),
    "one of each subtopology from the beginning": Row(
        spec(new("p1", "p2"), {"s1": 2, "s2": 2}, 1),
        active={"p1": {"s1": (0,), "s2": (0,)}, "p2": {"s1": (1,), "s2": (1,)}},
        standby={"p1": {"s1": (1,), "s2": (1,)}, "p2": {"s1": (0,), "s2": (0,)}},
    ),
    "a standby stays below the quota": Row(
        spec({"a": worker("p1", [0], [1]), "b": worker("p2", [1]), **new("p3")}, 2, 1),
        active={"a": [0], "b": [1]},
        standby={"a": [1]},
    ),
    "a standby stays where the active task is not": Row(
        spec({"a": worker("p1", (), [2]), "b": worker("p2", [0], [2]), "c": worker("p3", [1]), **new("p4")}, 3, 1),
        active={"a": [2], "b": [0], "c": [1], "p4": ()},
        standby={"b": [2]},
        also=lambda targets: bool(targets["p4"].standby),
    ),
    "who has something on disk": Row(
        spec({"a": worker("p1", offsets={0: 100, 1: 100}), "b": worker("p2", offsets={2: 100, 3: 100})}, 4, 0),
        active={"a": [0, 1], "b": [2, 3]},
    ),
    "what has something on disk are processes": Row(
        spec(
            {
                "p1": worker("p1", offsets={0: 100, 1: 100}),
                "p1_2": worker("p1", offsets={0: 100, 1: 100}),
                "p2": worker("p2", offsets={2: 100, 3: 100}),
                "p2_2": worker("p2", offsets={2: 100, 3: 100}),
            },
            4,
            0,
        ),
        also=lambda targets: in_process(targets, "p1") == {ONE: {0, 1}} and in_process(targets, "p2") == {ONE: {2, 3}},
    ),
    "who was to have it, then who has come farthest": Row(
        spec(
            {
                "a": worker("p1", [0]),
                "b": worker("p2", (), [0, 1]),
                "c": worker("p3", offsets={0: 1_000_000, 1: 1_000_000, 2: 100}),
                "d": worker("p4", offsets={2: 50}),
            },
            4,
            0,
        ),
        active={"a": [0], "b": [1], "c": [2], "d": [3]},
    ),
    "standbys where nothing is on disk": Row(
        spec({"a": worker("p1", offsets={0: 100}), "b": worker("p2", offsets={1: 100})}, 2, 1),
        active={"a": [0], "b": [1]},
        standby={"a": [1], "b": [0]},
    ),
    "no members": Row(spec({}, 0)),
}


@pytest.mark.parametrize("name", ROWS)
def test_who_gets_which_tasks(name: str) -> None:
    row = ROWS[name]
    targets = assign(row.given)
    check(row.given, targets)
    for member_id, some in row.active.items():
        assert targets[member_id].active == tasks(some)
    for member_id, some in row.standby.items():
        assert targets[member_id].standby == tasks(some)
    for member_id, some in row.keeps.items():
        assert {*tasks(some)[ONE]} <= {*targets[member_id].active[ONE]}
    assert {member_id: counts(targets)[member_id] for member_id in row.counts} == row.counts
    assert row.also(targets)


# -- racks ------------------------------------------------------------------------------------------------------------


def standbys_of(targets: Targets, number: int) -> set[str]:
    return {member_id for member_id, roles in targets.items() if number in roles.standby.get(ONE, ())}


ZONES: Final = {
    "a1": worker("a1", [0], zone="a", cluster="1"),
    "a2": worker("a2", zone="a", cluster="2"),
    "b1": worker("b1", zone="b", cluster="1"),
    "b2": worker("b2", zone="b", cluster="2"),
}


@pytest.mark.parametrize(
    ("tags", "replicas", "members", "expected"),
    [
        ("zone", 1, {"a1", "a2", "b1"}, {"b1"}),
        ("zone, cluster", 1, {"a1", "a2", "b1", "b2"}, {"b2"}),
        ("zone,cluster", 1, {"a1", "a2", "b1"}, {"b1"}),
        ("cluster,zone", 1, {"a1", "a2", "b1"}, {"a2"}),
        ("zone", 1, {"a1", "a2"}, {"a2"}),
        ("cluster,zone", 2, {"a1", "a2", "b1", "b2"}, {"a2", "b2"}),
    ],
)
def test_a_standby_is_where_its_task_would_survive(
    tags: str, replicas: int, members: set[str], expected: set[str]
) -> None:
    given = spec({name: ZONES[name] for name in sorted(members)}, 1, replicas, tags)
    targets = assign(given)
    check(given, targets)
    assert standbys_of(targets, 0) == expected


def test_a_member_that_does_not_say_its_tag_counts_as_being_with_everybody() -> None:
    given = spec({"a": worker("a", [0], zone="a"), "b": worker("b"), "c": worker("c", zone="c")}, 1, 1, "zone")
    assert standbys_of(assign(given), 0) == {"c"}


def test_a_standby_moves_to_a_better_place_and_stays_there() -> None:
    old = {"a": worker("a", [0], zone="a"), "b": worker("b", (), [0], zone="a"), "c": worker("c", zone="c")}
    targets = assign(spec(old, 1, 1, "zone"))
    assert standbys_of(targets, 0) == {"c"}
    kept = {name: one.replace(held=targets[name]) for name, one in old.items()} | {"d": worker("d", zone="d")}
    assert standbys_of(assign(spec(kept, 1, 1, "zone")), 0) == {"c"}


def test_without_the_setting_tags_count_for_nothing() -> None:
    old = {"a": worker("a", [0], zone="a"), "b": worker("b", (), [0], zone="a"), "c": worker("c", zone="c")}
    assert standbys_of(assign(spec(old, 1, 1)), 0) == {"b"}
