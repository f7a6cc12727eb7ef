"""The sticky assignor with any members, processes, racks, and any tasks held before."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.group.streams.workers import check, counts, spec, worker

from penstock.coordinator.group.streams.assignors.spec import Spec, Targets
from penstock.coordinator.group.streams.assignors.sticky import assign

SUBTOPOLOGIES = ("s0", "s1", "s2")
PARTITIONS = st.lists(st.integers(0, 7), unique=True, max_size=6)
HELD = st.dictionaries(st.sampled_from((*SUBTOPOLOGIES, "gone")), PARTITIONS, max_size=3)


@st.composite
def specs(draw: st.DrawFn, most_members: int = 8, processes: int = 5) -> Spec:
    members = {
        f"m{number}": worker(
            f"p{draw(st.integers(0, processes - 1))}",
            draw(HELD),
            draw(HELD),
        ).replace(tags=draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}])))
        for number in range(draw(st.integers(1, most_members)))
    }
    tasks = {name: draw(st.integers(1, 9)) for name in SUBTOPOLOGIES[: draw(st.integers(1, 3))]}
    return spec(
        members, tasks, draw(st.sampled_from([None, 0, 1, 2])), draw(st.sampled_from(["", "zone", "rack,zone"]))
    )


def after(given_spec: Spec, targets: Targets) -> Spec:
    members = {name: one.replace(held=targets[name]) for name, one in given_spec.members.items()}
    return given_spec.replace(members=members)


@settings(max_examples=150)
@given(specs(), st.integers(0, 7))
def test_what_holds_of_every_assignment(any_spec: Spec, number: int) -> None:
    """What no process may have twice is in `check`."""
    targets = assign(any_spec)
    check(any_spec, targets)
    _is_balanced(any_spec, counts(targets))

    assigned = after(any_spec, targets)
    again = assign(assigned)
    assert {name: roles.active for name, roles in again.items()} == {name: targets[name].active for name in targets}

    left = {name: one for name, one in assigned.members.items() if name != f"m{number % len(targets)}"}
    if left:
        fewer = assign(assigned.replace(members=left))
        for name, one in left.items():
            for subtopology, partitions in one.held.active.items():
                assert {*partitions} <= {*fewer[name].active.get(subtopology, ())}, "only what the member had moves"


def _is_balanced(any_spec: Spec, active: dict[str, int]) -> None:
    total = sum(any_spec.tasks.values())
    assert max(active.values()) <= -(-total // len(active))
    assert min(active.values()) >= total // len(active)
