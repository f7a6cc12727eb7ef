from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.work.plan import (
    Member,
    Plan,
    PlanError,
    Planner,
    Task,
    checked,
    even,
    sticky,
    weighted,
)


def tasks_named(*names: str) -> list[Task]:
    return [Task(name) for name in names]


def members_named(*names: str) -> list[Member]:
    return [Member(name) for name in names]


NAMES = st.integers(0, 40).map(lambda count: [f"task-{number}" for number in range(count)])


@st.composite
def situations(draw: Callable[..., object]) -> tuple[list[Task], list[Member]]:
    """Tasks, and members that own some of them, of others, and of what no longer exists."""
    names = draw(NAMES)
    assert isinstance(names, list)
    tasks = [Task(name, draw(st.integers(1, 9))) for name in names]  # type: ignore[arg-type]
    count = draw(st.integers(0, 6))
    assert isinstance(count, int)
    owners = [draw(st.integers(-1, max(0, count - 1))) for _ in names]
    members = [
        Member(
            f"member-{index}",
            owned=(*(name for name, owner in zip(names, owners, strict=True) if owner == index), "gone"),
            capacity=draw(st.integers(1, 3)),  # type: ignore[arg-type]
        )
        for index in range(count)
    ]
    return tasks, members


def naive_even(tasks: list[Task], members: list[Member]) -> Plan:
    """Hand out one share after the other, counting down what is left."""
    plan: Plan = {}
    left = [task.name for task in tasks]
    for index, member in enumerate(members):
        share = -(-len(left) // (len(members) - index))
        plan[member.name], left = tuple(left[:share]), left[share:]
    return plan


@given(situations())
def test_even_is_what_a_naive_planner_does(situation: tuple[list[Task], list[Member]]) -> None:
    tasks, members = situation
    assert even(tasks, members) == naive_even(tasks, members)


@pytest.mark.parametrize("planner", [even, sticky, weighted])
@given(situations())
def test_every_task_has_one_member(planner: Planner, situation: tuple[list[Task], list[Member]]) -> None:
    tasks, members = situation
    given_names = sorted(name for names in checked(planner(tasks, members), tasks, members).values() for name in names)
    assert given_names == (sorted(task.name for task in tasks) if members else [])


@given(situations())
def test_sticky_is_even_and_moves_no_more_than_it_must(situation: tuple[list[Task], list[Member]]) -> None:
    tasks, members = situation
    plan = sticky(tasks, members)
    counts = sorted(len(names) for names in plan.values())
    assert not counts or counts[-1] - counts[0] <= 1
    known = {task.name for task in tasks}
    owned = {member.name: [name for name in member.owned if name in known] for member in members}
    kept = sum(name in owned[member] for member, names in plan.items() for name in names)
    if members:
        share, one_more = divmod(len(tasks), len(members))
        most_first = sorted((len(names) for names in owned.values()), reverse=True)
        most = sum(min(count, share + (index < one_more)) for index, count in enumerate(most_first))
        assert kept == most


@given(situations())
def test_weighted_leaves_nobody_far_above_its_share(situation: tuple[list[Task], list[Member]]) -> None:
    tasks, members = situation
    weights = {task.name: task.weight for task in tasks}
    heaviest = max(weights.values(), default=0)
    capacity = sum(member.capacity for member in members)
    for member in members:
        load = sum(weights[name] for name in weighted(tasks, members)[member.name])
        assert load <= sum(weights.values()) * member.capacity / capacity + heaviest


def test_weighted_gives_the_one_heavy_task_a_member_of_its_own() -> None:
    tasks = [Task("heavy", 10), *(Task(f"light-{number}") for number in range(10))]
    plan = weighted(tasks, members_named("a", "b"))
    assert plan["a"] == ("heavy",)
    assert len(plan["b"]) == 10


def test_weighted_leaves_what_fits_where_it_is() -> None:
    tasks = tasks_named("one", "two", "three", "four")
    members = [Member("a", owned=("three", "four")), Member("b", owned=("one", "two"))]
    assert weighted(tasks, members) == {"a": ("three", "four"), "b": ("one", "two")}


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"a": ("one", "two"), "b": ("two",)}, "to more than one"),
        ({"a": ("one",), "b": ()}, "leaves out"),
        ({"a": ("one", "two", "three")}, "invents"),
        ({"c": ("one", "two")}, "not members"),
    ],
)
def test_a_plan_that_errs(plan: Plan, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        checked(plan, tasks_named("one", "two"), members_named("a", "b"))
