"""What the clauses of a rule do with a request and its answer, whatever the API."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_CLUSTER, Right
from penstock.node.serving.rules import THINGS_A_STEP, Asking, Each, Told, Whole
from penstock.node.serving.session import Principal, Session
from penstock.protocol.acls import Operation, Resource
from penstock.protocol.errors import KafkaError

READ = Right(Operation.READ, Resource.TOPIC)
ALTER = Right(Operation.ALTER, Resource.GROUP)
ANY = "any one"


class Request:
    """Two lists of names."""

    def __init__(self, **lists: list[Any]) -> None:
        vars(self).update({"topics": [], "groups": [], **lists})

    def replace(self, **lists: list[Any]) -> "Request":
        return Request(**{**vars(self), **lists})


class Allowing:
    """A client that may do what is named, and what it was asked."""

    api_version = 0
    session = Session("127.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))

    def __init__(self, *allowed: tuple[Right, str]) -> None:
        self.allowed = allowed
        self.asked: list[tuple[Right, str]] = []

    def allows(self, right: Right, name: str = "kafka-cluster") -> bool:
        self.asked.append((right, name))
        return (right, name) in self.allowed

    has = allows

    def has_any(self, right: Right) -> Generator[None, None, bool]:
        yield None
        return self.allows(right, ANY)

    def shows(self, right: Right, name: str) -> bool:
        return self.allows(right, name)


def asking(request: Any, *allowed: tuple[Right, str]) -> tuple[Asking, Allowing]:
    client = Allowing(*allowed)
    return Asking(None, client, request), client


def each(**more: Any) -> Each:
    return Each(right=READ, fields=("topics", "groups"), answers="rows", name=lambda _, thing: thing, **more)


@pytest.mark.parametrize(
    ("topics", "groups", "kept", "is_over"),
    [
        (["a", "b"], [], (["a", "b"], []), False),
        (["a", "x"], [], (["a"], []), False),
        (["x"], ["b"], ([], ["b"]), False),
        (["x", "y"], ["z"], ([], []), True),
        ([], [], ([], []), False),
        ([None, "x"], [], ([None], []), False),
    ],
)
def test_what_is_refused_is_taken_out(
    topics: list[Any], groups: list[Any], kept: tuple[list[Any], list[Any]], is_over: bool
) -> None:
    request = Request(topics=topics, groups=groups)
    it, _ = asking(request, (READ, "a"), (READ, "b"))
    list(each().before(it))
    assert (it.request.topics, it.request.groups) == kept
    assert it.is_over is is_over
    assert [(field, thing, name) for field, thing, _, name in it.refused] == [
        ("rows", thing, None) for thing in (*topics, *groups) if thing in ("x", "y", "z")
    ]
    assert all(error.code == READ.refused().code for _, _, error, _ in it.refused)
    assert (it.request is request) is not bool(it.refused)


def test_what_was_refused_before_is_no_reason_to_end() -> None:
    it, _ = asking(Request(), (READ, "a"))
    it.refused.append(("rows", "earlier", READ.refused(), None))
    list(each().before(it))
    assert not it.is_over


def test_each_name_is_asked_about_once_and_may_be_told() -> None:
    it, client = asking(Request(topics=["a", "x", "a", "x"]), (READ, "a"))
    list(each(tells_name=True).before(it))
    assert client.asked == [(READ, "a"), (READ, "x")]
    assert [name for *_, name in it.refused] == ["x", "x"]


def test_a_right_on_the_cluster_will_do_for_all() -> None:
    for may in (True, False):
        it, client = asking(Request(topics=["x"]), *([(CLUSTER_ACTION, "kafka-cluster")] if may else []))
        list(each(unless=CLUSTER_ACTION).before(it))
        assert (it.request.topics == ["x"]) is may
        assert client.asked[0] == (CLUSTER_ACTION, "kafka-cluster")
        assert len(client.asked) == (1 if may else 2)


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_the_right_may_depend_on_the_thing(kind: str) -> None:
    def right(_: Asking, thing: Any) -> Right | None:
        return {"t": READ, "g": ALTER}.get(thing)

    it, client = asking(Request(**{kind: ["t", "g", "other"]}), (ALTER, "g"))
    list(Each(right=right, fields=(kind,), answers="rows", name=lambda _, thing: thing).before(it))
    assert getattr(it.request, kind) == ["g", "other"]
    assert client.asked == [(READ, "t"), (ALTER, "g")]
    assert [error.code for _, _, error, _ in it.refused] == [READ.refused().code]


@pytest.mark.parametrize("count", [THINGS_A_STEP - 1, THINGS_A_STEP, 2 * THINGS_A_STEP + 1])
def test_many_things_are_judged_in_steps(count: int) -> None:
    it, _ = asking(Request(topics=["a"] * count), (READ, "a"))
    assert len(list(each().before(it))) == count // THINGS_A_STEP
    whole = Whole(right=READ, names=lambda request: cast("list[str]", request.topics))
    assert len(list(whole.before(it))) == count // THINGS_A_STEP
    told = Told(right=READ, field="topics", name=str)
    response = SimpleNamespace(topics=["a"] * count)
    assert len(list(told.after(it, response))) == count // THINGS_A_STEP
    assert len(response.topics) == count


def test_what_may_not_be_told_is_left_out_or_loses_something() -> None:
    for hide in (None, lambda thing: thing.update(secret=None)):
        for may in (True, False):
            it, _ = asking(Request(), (READ, "a"), *([(DESCRIBE_CLUSTER, "kafka-cluster")] if may else []))
            rows: list[dict[str, Any]] = [{"name": name, "secret": 1} for name in ("a", "x")]
            response = SimpleNamespace(rows=rows)
            clause = Told(
                right=READ, field="rows", name=lambda row: cast("str", row["name"]), unless=DESCRIBE_CLUSTER, hide=hide
            )
            list(clause.after(it, response))
            secrets = [(row["name"], row["secret"]) for row in response.rows]
            left = [("a", 1), ("x", 1)] if may else [("a", 1), *([("x", None)] if hide else [])]
            assert secrets == left


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [([(READ, "a"), (READ, "b")], True), ([(READ, "a")], False), ([(READ, "a"), (ALTER, ANY)], True), ([], False)],
)
def test_the_whole_needs_a_right_on_every_name_or_another_on_any(allowed: list[Any], is_allowed: bool) -> None:
    it, _ = asking(Request(topics=["a", "b"]), *allowed)
    clause = Whole(right=READ, names=lambda request: cast("list[str]", request.topics), or_any=ALTER)
    if is_allowed:
        assert not any(clause.before(it))
    else:
        with pytest.raises(KafkaError) as refusal:
            list(clause.before(it))
        assert refusal.value.code == READ.refused().code
