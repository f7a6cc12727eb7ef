from hypothesis import given
from hypothesis import strategies as st

from penstock.work.incremental import Step, Waiting, step
from penstock.work.plan import Member, Task, sticky

DELAY_MS = 60_000
TASKS = tuple(Task(f"task-{number}") for number in range(10))
NAMES = tuple(task.name for task in TASKS)


def after(last: Step, *members: Member, tasks: tuple[Task, ...] = TASKS, delay_ms: int = DELAY_MS) -> Step:
    return step(sticky, tasks, members, last, delay_ms)


def with_plan(last: Step, **left: str) -> list[Member]:
    return [Member(name, owned=names) for name, names in last.plan.items()]


def test_the_first_workers_get_everything() -> None:
    first = after(Step({}), Member("a"), Member("b"))
    assert first == Step({"a": NAMES[:5], "b": NAMES[5:]})


def test_a_newcomer_gets_in_two_generations_what_others_give_up() -> None:
    last = Step({"a": NAMES[:5], "b": NAMES[5:]})
    middle = after(last, *with_plan(last), Member("c"))
    assert middle.plan == {"a": NAMES[:4], "b": NAMES[5:8], "c": ()}
    assert middle.moving == (NAMES[4], *NAMES[8:])
    end = after(middle, *with_plan(middle))
    assert end == Step({"a": NAMES[:4], "b": NAMES[5:8], "c": (NAMES[4], *NAMES[8:])})


def test_what_a_worker_ran_that_left_waits_for_it() -> None:
    last = Step({"a": NAMES[:5], "b": NAMES[5:]})
    left = after(last, Member("a", owned=NAMES[:5]))
    assert left == Step({"a": NAMES[:5]}, tuple(Waiting(name, "b", DELAY_MS) for name in NAMES[5:]))
    back = after(left, Member("a", owned=NAMES[:5]), Member("b"))
    assert back == last


def test_a_worker_under_another_name_takes_the_place_at_once() -> None:
    last = Step({"a": NAMES[:5], "b": NAMES[5:]})
    left = after(last, Member("a", owned=NAMES[:5]))
    assert after(left, Member("a", owned=NAMES[:5]), Member("c")) == Step({"a": NAMES[:5], "c": NAMES[5:]})


def test_after_the_delay_the_others_have_it() -> None:
    left = Step({"a": NAMES[:5]}, tuple(Waiting(name, "b", 0) for name in NAMES[5:]))
    assert after(left, Member("a", owned=NAMES[:5])) == Step({"a": NAMES})


def test_without_a_delay_nothing_waits() -> None:
    last = Step({"a": NAMES[:5], "b": NAMES[5:]})
    assert after(last, Member("a", owned=NAMES[:5]), delay_ms=0) == Step({"a": NAMES})


def test_a_task_that_is_gone_does_not_wait() -> None:
    last = Step({"a": NAMES[:5], "b": NAMES[5:]})
    assert after(last, Member("a", owned=NAMES[:5]), tasks=TASKS[:6]).waiting == (Waiting(NAMES[5], "b", DELAY_MS),)


def test_what_is_no_task_any_more_is_given_up_by_who_runs_it() -> None:
    last = Step({"a": NAMES[:4], "b": NAMES[4:8]})
    decided = after(last, Member("a", owned=NAMES[:4]), Member("b", owned=NAMES[4:8]), tasks=TASKS[:7])
    assert decided == Step({"a": NAMES[:4], "b": NAMES[4:7]}, (), (NAMES[7],))
    assert after(decided, Member("a", owned=NAMES[:4]), Member("b", owned=NAMES[4:7]), tasks=TASKS[:7]).moving == ()


def test_what_somebody_runs_who_is_given_nothing_is_given_to_nobody() -> None:
    decided = step(sticky, TASKS, [Member("a")], Step({}), DELAY_MS, busy={NAMES[3]})
    assert decided == Step({"a": (*NAMES[:3], *NAMES[4:])}, (), (NAMES[3],))


@given(st.lists(st.integers(-1, 4), min_size=10, max_size=10), st.integers(1, 5), st.integers(0, 12))
def test_nobody_is_given_what_another_runs_and_what_may_stay_stays(owners: list[int], count: int, tasks: int) -> None:
    members = [
        Member(f"m{index}", owned=tuple(name for name, owner in zip(NAMES, owners, strict=True) if owner == index))
        for index in range(count)
    ]
    wanted = tuple(Task(f"task-{number}") for number in range(tasks))
    decided = step(sticky, wanted, members, Step({}), DELAY_MS)
    runs = {name: member.name for member in members for name in member.owned}
    for worker, names in decided.plan.items():
        assert all(runs.get(name, worker) == worker for name in names)
    share = -(-tasks // count)
    for member in members:
        mine = [name for name in member.owned if name in {task.name for task in wanted}]
        assert len([name for name in mine if name in decided.plan[member.name]]) >= min(len(mine), share - 1)


HEAVY = tuple(Task(f"task-{number}", cores=2, memory_mb=100) for number in range(4))


def test_nobody_is_given_more_than_there_is_room_for() -> None:
    small, large = Member("a", cores=3), Member("b", cores=8, memory_mb=150)
    assert after(Step({}), small, large, tasks=HEAVY) == Step({"a": NAMES[:1], "b": NAMES[2:3]})
    roomy = Member("b", cores=8, memory_mb=400)
    assert after(Step({}), small, roomy, tasks=HEAVY) == Step({"a": NAMES[:1], "b": (*NAMES[2:4], NAMES[1])})


def test_what_runs_stays_where_there_is_room_for_it() -> None:
    both = [Member("a", owned=NAMES[1:2], cores=2), Member("b", owned=NAMES[:1], cores=4)]
    assert after(Step({}), *both, tasks=HEAVY).plan == {"a": NAMES[1:2], "b": (NAMES[0], NAMES[3])}


def test_a_member_gets_no_more_before_it_has_ended_what_it_gives_up() -> None:
    """Of `a`, which has room for two, the plan wants one of four to go, and another to come."""
    other = Task("other", cores=3)
    running = Member("a", owned=NAMES[:2], cores=4)
    light = (*HEAVY[:1], other)
    middle = after(Step({}), running, tasks=light)
    assert (middle.plan, middle.moving) == ({"a": NAMES[:1]}, (NAMES[1],))
    assert after(middle, Member("a", owned=NAMES[:1], cores=5), tasks=light).plan == {"a": (NAMES[0], "other")}


def test_what_needs_nothing_is_always_given() -> None:
    full = Member("a", owned=NAMES[:1], cores=2)
    assert after(Step({}), full, tasks=(HEAVY[0], HEAVY[1], Task("light"))).plan == {"a": (NAMES[0], "light")}
