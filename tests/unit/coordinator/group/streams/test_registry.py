"""Assignors that others wrote: found by their names, and not trusted."""

from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest
from tests.unit.coordinator.group.streams.workers import spec, worker

from penstock.coordinator.group.streams.assignors import registry
from penstock.coordinator.group.streams.assignors.registry import assignor, is_built_in, name_of
from penstock.coordinator.group.streams.assignors.spec import Spec, Targets
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.protocol.errors import ErrorCode, KafkaError

TWO = spec({"a": worker("p1"), "b": worker("p2"), "c": worker("p2")}, 2, 1)


def all_to_the_first(given: Spec) -> Targets:
    return {next(iter(given.members)): Roles({sub: tuple(range(count)) for sub, count in given.tasks.items()})}


NOT_A_FUNCTION = 1


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(*, group: str) -> list[EntryPoint]:
        names = {"first": "all_to_the_first", "number": "NOT_A_FUNCTION", "gone": "there_is_no_such_name"}
        return [EntryPoint(name, f"{__name__}:{value}", group) for name, value in names.items()]

    monkeypatch.setattr(registry, "entry_points", offered)
    registry._found.cache_clear()


def test_the_wanted_one_or_the_first_that_is_offered() -> None:
    assert name_of(None, ("sticky", "first")) == "sticky"
    assert name_of("first", ("sticky", "first")) == "first"
    assert name_of("other", ("sticky", "first")) == "sticky"
    assert (is_built_in("sticky"), is_built_in("first")) == (True, False)


def test_an_installed_package_offers_one() -> None:
    assert assignor("first", ("sticky", "first"))(TWO) == {"a": Roles({"s": (0, 1)})}


@pytest.mark.parametrize(
    ("name", "why"),
    [("other", "no installed package offers it.*first.*sticky"), ("number", "not a function"), ("gone", "be loaded")],
)
def test_what_cannot_be_used(name: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        assignor(name, (name,))
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def raises(given: Spec) -> Targets:
    raise ZeroDivisionError("what a day")


ALL = {"s": (0, 1)}


@pytest.mark.parametrize(
    ("assign", "why"),
    [
        (raises, "what a day"),
        (lambda given: {}, "nobody has task s_0 active"),
        (lambda given: {"x": Roles(ALL)}, "member x is not in the group"),
        (lambda given: {"a": Roles(ALL), "b": Roles({"s": (1,)})}, "s_1 is active at a and at b"),
        (lambda given: {"a": Roles({"s": (0, 1, 2)})}, "no task s_2"),
        (lambda given: {"a": Roles(ALL), "b": Roles({}, {"s": (-1,)})}, "no task s_-1"),
        (lambda given: {"a": Roles(ALL, {"s": (0,)})}, "process p1 has task s_0 twice"),
        (lambda given: {"a": Roles(ALL), "b": Roles({}, {"s": (0,)}), "c": Roles({}, {}, {"s": (0,)})}, "p2 has task"),
        (lambda given: 1, "failed"),
    ],
)
def test_what_no_assignor_may_do(assign: Callable[[Spec], Targets], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "all_to_the_first", assign)
    with pytest.raises(KafkaError, match=why) as caught:
        assignor("first", ("first",))(TWO)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
