"""What a member becomes: rows are cases of Kafka's tests of the same rules, in all three roles where these are."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import pytest

from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.current import Wanted, reconciled
from penstock.coordinator.group.streams.values import STABLE, UNRELEASED_TASKS, UNREVOKED_TASKS, Current, Held
from penstock.protocol.errors import KafkaError

OWN: Final = "process"
OTHER: Final = "other"
UNKNOWN: Final = 127
ACTIVE, STANDBY, WARMUP = ROLES = ("active", "standby", "warmup")

Tasks = Mapping[str, Collection[int]]
Epochs = Mapping[str, Mapping[int, int]]
NOTHING: Final = Held()
T0: Final = {"a": (0,)}
ABOUT: Final = {"a": (2, 3), "b": (5, 6)}
FEWER: Final = {"a": (3,), "b": (6,)}
WIDER: Final = {"a": (2, 3, 4), "b": (5, 6, 7)}


def held(role: str, tasks: Tasks | Epochs, epoch: int = 10) -> Held:
    """An epoch for each task, or this one for all."""
    if role != ACTIVE:
        return Held().replace(**{role: {sub: tuple(partitions) for sub, partitions in tasks.items()}})
    return Held(
        {
            sub: dict(partitions) if isinstance(partitions, Mapping) else dict.fromkeys(partitions, epoch)
            for sub, partitions in tasks.items()
        }
    )


def both(first: Held, second: Held) -> Held:
    return Held(
        {**first.active, **second.active}, {**first.standby, **second.standby}, {**first.warmup, **second.warmup}
    )


class Has(NamedTuple):
    """Which processes have the tasks that the member looks at."""

    active: str | None = None
    standby: frozenset[str] = frozenset()
    warmup: frozenset[str] = frozenset()
    only: str | None = None
    """The subtopology of which that is so; None for all."""

    def wanted(self, epoch: int, target: Roles) -> Wanted:
        def of(subtopology: str) -> Has:
            return self if self.only in (None, subtopology) else NOBODY

        return Wanted(
            epoch,
            target,
            lambda subtopology, partition: of(subtopology).active,
            lambda subtopology, partition: of(subtopology).standby,
            lambda subtopology, partition: of(subtopology).warmup,
        )


HERE: Final = frozenset({OWN})
NOBODY: Final = Has()
ALL: Final = Has(OWN, HERE, HERE)


class Case(NamedTuple):
    before: Current
    has: Has
    epoch: int
    target: Roles
    said: Roles | None
    after: Current


def target(role: str, tasks: Tasks) -> Roles:
    return held(role, tasks).roles


def of_stable_members(role: str) -> dict[str, Case]:
    one, two = {"a": (1, 2), "b": (3, 4)}, {"a": (1, 2, 4), "b": (3, 4, 7)}
    mixed, more = {"a": {1: 9, 2: 8}, "b": {3: 9, 4: 8}}, {"a": {1: 9, 2: 8, 4: 11}, "b": {3: 9, 4: 8, 7: 11}}
    has, nothing = held(role, one), Roles()
    stable = Current(10, 10, STABLE, has)
    return {
        "stable to stable": Case(stable, Has(OWN), 11, target(role, one), None, Current(11, 10, STABLE, has)),
        "stable at the target's epoch": Case(stable, Has(OWN), 10, target(role, one), None, stable),
        "stable with new tasks": Case(
            Current(10, 10, STABLE, held(role, mixed)),
            NOBODY,
            11,
            target(role, two),
            None,
            Current(11, 10, STABLE, held(role, more)),
        ),
        "stable to unrevoked": Case(
            stable,
            NOBODY,
            11,
            target(role, {"a": (2, 3), "b": (4, 5)}),
            None,
            Current(10, 10, UNREVOKED_TASKS, held(role, {"a": (2,), "b": (4,)}), held(role, {"a": (1,), "b": (3,)})),
        ),
        "stable to unrevoked with nothing left": Case(
            stable, Has(OWN), 11, nothing, None, Current(10, 10, UNREVOKED_TASKS, NOTHING, has)
        ),
        "stable to unreleased": Case(
            stable, Has(OWN), 11, target(role, two), None, Current(11, 10, UNRELEASED_TASKS, has)
        ),
        "stable to unreleased, and what it had is given up already": Case(
            stable,
            Has(OWN, only="b"),
            11,
            target(role, {"a": (1, 2), "b": (3, 5)}),
            nothing,
            Current(11, 10, UNRELEASED_TASKS, held(role, {"a": (1, 2), "b": (3,)})),
        ),
    }


def of_members_that_give_up(role: str) -> dict[str, Case]:
    at_11 = held(role, ABOUT, 11)
    giving_up = Current(10, 10, UNREVOKED_TASKS, held(role, ABOUT), held(role, {"a": (1,), "b": (4,)}))
    fewer, wider, owned = target(role, FEWER), target(role, WIDER), target(role, ABOUT)
    return {
        "unrevoked to stable": Case(giving_up, NOBODY, 11, owned, owned, Current(11, 10, STABLE, held(role, ABOUT))),
        "unrevoked, and it does not say": Case(giving_up, NOBODY, 12, fewer, None, giving_up),
        "unrevoked, and it owns one still": Case(
            giving_up, NOBODY, 12, fewer, target(role, {"a": (1, 2, 3), "b": (5, 6)}), giving_up
        ),
        "unrevoked, and it owns another still": Case(
            giving_up, NOBODY, 12, fewer, target(role, {"a": (2, 3), "b": (4, 5, 6)}), giving_up
        ),
        "unrevoked to unrevoked": Case(
            giving_up,
            NOBODY,
            12,
            fewer,
            owned,
            Current(11, 10, UNREVOKED_TASKS, held(role, {"a": (3,), "b": (6,)}), held(role, {"a": (2,), "b": (5,)})),
        ),
        "unrevoked to unreleased": Case(
            Current(11, 10, UNREVOKED_TASKS, at_11, held(role, {"a": (1,), "b": (4,)}, 11)),
            Has(OWN),
            11,
            wider,
            owned,
            Current(11, 11, UNRELEASED_TASKS, at_11),
        ),
    }


def of_others(role: str) -> dict[str, Case]:
    at_11 = held(role, ABOUT, 11)
    waiting = Current(11, 11, UNRELEASED_TASKS, at_11)
    in_another_role = Has(
        standby=HERE if role != STANDBY else frozenset(), warmup=HERE if role == STANDBY else frozenset()
    )
    fewer, wider, owned, nothing = target(role, FEWER), target(role, WIDER), target(role, ABOUT), Roles()
    unknown = Current(11, 11, UNKNOWN, held(role, FEWER, 11), held(role, {"a": (2,), "b": (5,)}, 11))
    return {
        "unreleased to stable": Case(
            waiting, Has(OTHER, frozenset({OTHER}), frozenset({OTHER})), 12, owned, None, Current(12, 11, STABLE, at_11)
        ),
        "unreleased to stable with new tasks": Case(
            waiting,
            NOBODY,
            11,
            wider,
            None,
            Current(11, 11, STABLE, held(role, {"a": (2, 3, 4), "b": (5, 6, 7)}, 11)),
        ),
        "unreleased to unreleased": Case(waiting, ALL, 11, wider, None, waiting),
        "unreleased, as its process has it in another role": Case(waiting, in_another_role, 11, wider, None, waiting),
        "unreleased to unrevoked": Case(
            Current(11, 11, UNRELEASED_TASKS, at_11, held(role, {"a": (4,), "b": (7,)}, 11)),
            Has(OTHER),
            12,
            fewer,
            None,
            Current(
                11, 11, UNREVOKED_TASKS, held(role, {"a": (3,), "b": (6,)}, 11), held(role, {"a": (2,), "b": (5,)}, 11)
            ),
        ),
        "in an unknown state, with nothing": Case(
            unknown, Has(OWN), 12, fewer, nothing, Current(12, 11, STABLE, held(role, {"a": (3,), "b": (6,)}, 11))
        ),
    }


def stable(role: str, epoch: int = 10) -> Current:
    return Current(epoch, epoch, STABLE, held(role, T0, epoch))


NEW: Final = Current(10, 10, STABLE)
A1: Final = {"a": (1,)}
EPOCHS: Final = {"a": {1: 5, 2: 6}, "b": {3: 7, 4: 8}}
ROLE_CHANGES: Final = {
    "an active task waits for its owner in any process": Case(
        Current(11, 11, UNRELEASED_TASKS, held(ACTIVE, ABOUT, 11)),
        Has(OTHER, only="a"),
        11,
        target(ACTIVE, {"a": (2, 3, 4), "b": (5, 6, 7)}),
        None,
        Current(11, 11, UNRELEASED_TASKS, held(ACTIVE, {"a": (2, 3), "b": (5, 6, 7)}, 11)),
    ),
    "what it had keeps its epochs": Case(
        Current(10, 10, STABLE, held(ACTIVE, EPOCHS)),
        Has(OWN),
        11,
        target(ACTIVE, EPOCHS),
        None,
        Current(11, 10, STABLE, held(ACTIVE, EPOCHS)),
    ),
    "what is new has the target's epoch": Case(
        NEW,
        NOBODY,
        11,
        target(ACTIVE, EPOCHS),
        None,
        Current(11, 10, STABLE, held(ACTIVE, {"a": (1, 2), "b": (3, 4)}, 11)),
    ),
    "old and new epochs": Case(
        Current(10, 10, UNREVOKED_TASKS, held(ACTIVE, {"a": {1: 5, 2: 6}}), held(ACTIVE, {"b": {3: 7, 4: 8}})),
        NOBODY,
        11,
        target(ACTIVE, {"a": (1, 2), "b": (3, 5)}),
        target(ACTIVE, A1),
        Current(11, 10, STABLE, held(ACTIVE, {"a": {1: 5, 2: 6}, "b": {3: 11, 5: 11}})),
    ),
    "a warm-up stays one while another member has it active": Case(
        stable(WARMUP),
        Has(OTHER, warmup=HERE),
        11,
        target(ACTIVE, T0),
        None,
        Current(11, 10, UNRELEASED_TASKS, held(WARMUP, T0)),
    ),
    "a warm-up becomes active": Case(
        stable(WARMUP), Has(warmup=HERE), 11, target(ACTIVE, T0), None, Current(11, 10, STABLE, held(ACTIVE, T0, 11))
    ),
    "a warm-up that waited becomes active": Case(
        Current(11, 10, UNRELEASED_TASKS, held(WARMUP, T0)),
        Has(warmup=HERE),
        11,
        target(ACTIVE, T0),
        None,
        Current(11, 11, STABLE, held(ACTIVE, T0, 11)),
    ),
    "not active while another member of the process has it as a warm-up": Case(
        NEW, Has(warmup=HERE), 11, target(ACTIVE, T0), None, Current(11, 10, UNRELEASED_TASKS)
    ),
    "a warm-up is kept while something else is to be given up": Case(
        Current(10, 10, STABLE, both(held(ACTIVE, A1), held(WARMUP, T0))),
        Has(warmup=HERE),
        11,
        target(ACTIVE, T0),
        None,
        Current(10, 10, UNREVOKED_TASKS, held(WARMUP, T0), held(ACTIVE, A1)),
    ),
    "a standby becomes active": Case(
        stable(STANDBY), Has(standby=HERE), 11, target(ACTIVE, T0), None, Current(11, 10, STABLE, held(ACTIVE, T0, 11))
    ),
    "a standby stays one while another member has it active": Case(
        stable(STANDBY),
        Has(OTHER, standby=HERE),
        11,
        target(ACTIVE, T0),
        None,
        Current(11, 10, UNRELEASED_TASKS, held(STANDBY, T0)),
    ),
    "not active while another member of the process has it as a standby": Case(
        NEW, Has(standby=HERE), 11, target(ACTIVE, T0), None, Current(11, 10, UNRELEASED_TASKS)
    ),
    "an active task becomes a standby": Case(
        stable(ACTIVE),
        Has(OWN),
        11,
        target(STANDBY, T0),
        None,
        Current(10, 10, UNREVOKED_TASKS, held(STANDBY, T0), held(ACTIVE, T0)),
    ),
    "an active task has become a standby": Case(
        Current(10, 10, UNREVOKED_TASKS, held(STANDBY, T0), held(ACTIVE, T0)),
        Has(OWN, standby=HERE),
        11,
        target(STANDBY, T0),
        target(STANDBY, T0),
        Current(11, 10, STABLE, held(STANDBY, T0)),
    ),
    "an active task is given up while another member of the process has it as a standby": Case(
        stable(ACTIVE),
        Has(OWN, standby=HERE),
        11,
        target(STANDBY, T0),
        None,
        Current(10, 10, UNREVOKED_TASKS, NOTHING, held(ACTIVE, T0)),
    ),
    "a standby becomes a warm-up": Case(
        stable(STANDBY), Has(standby=HERE), 11, target(WARMUP, T0), None, Current(11, 10, STABLE, held(WARMUP, T0))
    ),
    "a warm-up becomes a standby": Case(
        stable(WARMUP), Has(warmup=HERE), 11, target(STANDBY, T0), None, Current(11, 10, STABLE, held(STANDBY, T0))
    ),
    "a standby is given up while another member of the process has it as a warm-up": Case(
        stable(STANDBY),
        Has(standby=HERE, warmup=HERE),
        11,
        target(WARMUP, T0),
        None,
        Current(10, 10, UNREVOKED_TASKS, NOTHING, held(STANDBY, T0)),
    ),
    "an active task is no warm-up at once": Case(
        stable(ACTIVE),
        Has(OWN),
        11,
        target(WARMUP, T0),
        None,
        Current(10, 10, UNREVOKED_TASKS, NOTHING, held(ACTIVE, T0)),
    ),
}
CASES: Final = {
    f"{name} ({role})": case
    for role in ROLES
    for rows in (of_stable_members, of_members_that_give_up, of_others)
    for name, case in rows(role).items()
} | ROLE_CHANGES


@pytest.mark.parametrize("name", CASES)
def test_what_a_member_becomes(name: str) -> None:
    case = CASES[name]
    after = reconciled(case.before, OWN, case.has.wanted(case.epoch, case.target), case.said)
    assert after == case.after


@pytest.mark.parametrize("said", [None, target(ACTIVE, T0), target(WARMUP, T0)])
def test_a_member_in_an_unknown_state_has_to_join_again(said: Roles | None) -> None:
    with pytest.raises(KafkaError, match="rejoin"):
        reconciled(Current(11, 11, UNKNOWN), OWN, NOBODY.wanted(12, Roles()), said)
