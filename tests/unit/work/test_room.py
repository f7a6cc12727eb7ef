"""Cores and memory, case by case: who keeps what, who gets what is too much, and what nobody has room for."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.work.incremental import Step, Waiting
from penstock.work.plan import Member, Plan, Task
from penstock.work.room import Room, beside_what_ends, bounded
from penstock.work.worker import Worker

LIGHT, ONE, TWO, THREE = (Task(name, cores=cores) for name, cores in (("light", 0), ("1", 1), ("2", 2), ("3", 3)))
LARGE = Task("large", memory_mb=100)
BOTH = Task("both", cores=1, memory_mb=100)
TASKS = (LIGHT, ONE, TWO, THREE, LARGE, BOTH)


def member(name: str, *owned: str, cores: int | None = None, memory_mb: int | None = None) -> Member:
    return Member(name, owned=owned, cores=cores, memory_mb=memory_mb)


@pytest.mark.parametrize(
    ("members", "plan", "expected"),
    [
        ((member("a", cores=3),), {"a": ("1", "2")}, {"a": ("1", "2")}),
        ((member("a", cores=2),), {"a": ("1", "2")}, {"a": ("1",)}),
        ((member("a", cores=2),), {"a": ("2", "1")}, {"a": ("2",)}),
        ((member("a", "1", cores=2),), {"a": ("2", "1")}, {"a": ("1",)}),
        ((member("a", cores=0),), {"a": ("1", "light", "large")}, {"a": ("light", "large")}),
        ((member("a", memory_mb=100),), {"a": ("large", "3")}, {"a": ("large", "3")}),
        ((member("a", memory_mb=99),), {"a": ("large", "3")}, {"a": ("3",)}),
        ((member("a", cores=1, memory_mb=100),), {"a": ("both", "light")}, {"a": ("both", "light")}),
        ((member("a", cores=1, memory_mb=100),), {"a": ("both", "large", "1")}, {"a": ("both",)}),
        ((member("a", cores=9, memory_mb=99),), {"a": ("both",)}, {"a": ()}),
        ((member("a", cores=0, memory_mb=999),), {"a": ("both",)}, {"a": ()}),
        ((member("a"),), {"a": ("3", "2", "both")}, {"a": ("3", "2", "both")}),
        (
            (member("a", cores=1), member("b", cores=1)),
            {"a": ("1", "2", "both"), "b": ()},
            {"a": ("1",), "b": ("both",)},
        ),
        ((member("a", cores=0), member("b", cores=3)), {"a": ("2", "3"), "b": ()}, {"a": (), "b": ("3",)}),
        ((member("a", cores=0), member("b", cores=3)), {"a": ("2", "1"), "b": ()}, {"a": (), "b": ("2", "1")}),
        (
            (member("a", cores=0), member("b", cores=2), member("c", cores=3)),
            {"a": ("2",), "b": (), "c": ()},
            {"a": (), "b": (), "c": ("2",)},
        ),
        (
            (member("a", cores=0), member("b", "2", cores=2), member("c", cores=3)),
            {"a": ("2",), "b": (), "c": ()},
            {"a": (), "b": ("2",), "c": ()},
        ),
        (
            (member("a", cores=0), member("b", "2", cores=1), member("c", cores=3)),
            {"a": ("2",), "b": (), "c": ()},
            {"a": (), "b": (), "c": ("2",)},
        ),
        (
            (member("a", memory_mb=0), member("b", memory_mb=100)),
            {"a": ("large", "both"), "b": ()},
            {"a": (), "b": ("both",)},
        ),
    ],
)
def test_nobody_is_given_more_than_it_has(members: tuple[Member, ...], plan: Plan, expected: Plan) -> None:
    assert bounded(plan, TASKS, members) == expected


def test_the_larger_memory_goes_first_of_as_many_cores() -> None:
    tasks = [Task("small", cores=1, memory_mb=1), Task("big", cores=1, memory_mb=2)]
    members = [member("a", cores=0), member("b", cores=1)]
    for plan in ({"a": ("small", "big"), "b": ()}, {"a": ("big", "small"), "b": ()}):
        assert bounded(plan, tasks, members) == {"a": (), "b": ("big",)}


def test_where_nothing_is_needed_the_plan_is_as_it_was() -> None:
    plan: Plan = {"a": ("light",)}
    assert bounded(plan, [LIGHT], [member("a", cores=0)]) is plan
    for needs in (ONE, LARGE):
        whole: Plan = {"a": ("light", needs.name)}
        assert bounded(whole, [LIGHT, needs], [member("a", cores=0, memory_mb=0)]) == plan


@pytest.mark.parametrize(
    ("one", "mine", "given"),
    [
        (member("a", cores=2), ("2", "1"), ("2",)),
        (member("a", "2", cores=2), ("2", "1"), ("2",)),
        (member("a", "2", cores=2), ("1",), ()),
        (member("a", "2", cores=3), ("1", "both"), ("1",)),
        (member("a", "3", cores=1), ("3", "1", "light", "large"), ("3", "light", "large")),
        (member("a", "gone", cores=9, memory_mb=999), ("1", "large", "light"), ("light",)),
        (member("a", "gone", cores=9), ("1", "large", "light"), ("large", "light")),
        (member("a", "gone", memory_mb=9), ("1", "large", "light"), ("1", "light")),
        (member("a", "gone"), ("1", "large", "light"), ("1", "large", "light")),
    ],
)
def test_what_is_new_waits_until_there_is_room(one: Member, mine: tuple[str, ...], given: tuple[str, ...]) -> None:
    plan: Plan = {"a": mine, "other": ("x",)}
    assert beside_what_ends(plan, TASKS, [one]) == {"a": given, "other": ("x",)}
    assert beside_what_ends({}, TASKS, [one]) == {"a": ()}


def test_a_room_has_what_is_left() -> None:
    room = Room(member("a", cores=3, memory_mb=150))
    assert room.takes(BOTH)
    assert (room.name, room.cores, room._memory_mb, room.tasks) == ("a", 2, 50, ["both"])
    assert not room.takes(LARGE)
    assert not room.takes(THREE)
    assert room.takes(TWO)
    assert (room.cores, room._memory_mb, room.tasks) == (0, 50, ["both", "2"])
    room.fill(THREE)
    assert (room.cores, room.tasks) == (-3, ["both", "2", "3"])
    assert room.takes(LIGHT)
    room.fill(None)
    assert (room.cores, room._memory_mb, room.tasks) == (0, 0, ["both", "2", "3", "light"])


@pytest.mark.parametrize(
    ("step", "without"),
    [
        (Step({"a": ("1", "large"), "b": ("both",)}), ["2", "3"]),
        (Step({"a": ("1", "2", "3")}, moving=("large",), waiting=(Waiting("both", "b", 5),)), []),
        (Step({"a": ("light",)}), ["1", "2", "3", "large", "both"]),
        (Step({"a": ("1", "2")}, moving=("3", "1"), waiting=(Waiting("large", "b", 5),)), ["both"]),
    ],
)
def test_what_has_no_room_anywhere(step: Step, without: list[str]) -> None:
    """Nor runs somewhere still, or waits for one that left."""
    one: Any = SimpleNamespace(tasks=TASKS)
    assert Worker._without_room(one, step) == without


def test_who_has_less_than_nothing_takes_what_needs_nothing_of_it() -> None:
    room = Room(member("a", cores=1, memory_mb=50))
    room.fill(LARGE)
    assert [room.takes(task) for task in (LIGHT, ONE, LARGE)] == [True, True, False]
    room.fill(TWO)
    assert [room.takes(task) for task in (LIGHT, ONE)] == [True, False]
    room = Room(member("a", cores=1))
    room.fill(TWO)
    assert [room.takes(task) for task in (LARGE, ONE)] == [True, False]
