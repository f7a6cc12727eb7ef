"""Answers that are made in steps: what is in each of them, and what of a request counts by its names."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api import describe_metrics
from penstock.node.api.broker import offset_fetch, produce
from penstock.node.api.commands import _creatable, _deletable, _deletable_if_there, _token_owner, _without_configs
from penstock.node.api.consumed.committed_positions import committed_positions
from penstock.node.metrics.registry import Gauge, Group, Registry
from penstock.node.roles.broker import Broker
from penstock.node.serving.parts import NAMES_A_STEP
from penstock.node.serving.room import RequestMemory
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_topics import DeleteTopicState
from penstock.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from penstock.protocol.requests.own_apis import CommittedPositionsRequest, DescribeMetricsRequest


def to_its_end(steps: Any, first: object = None) -> tuple[int, Any]:
    """How often others had a turn, and the result. `first` is what comes of work that was given up before."""
    step, turns = partial(steps.send, first), 0
    while True:
        try:
            step()
        except StopIteration as stop:
            return turns, stop.value
        step, turns = partial(next, steps), turns + 1


class InAThread(list[Any]):
    """A broker: what is appended there."""

    slices = SimpleNamespace(taken_apart=lambda parse: ("apart", parse), memory=RequestMemory())


class Produced:
    """In the place of what becomes of a request: notes what is appended at once."""

    def __init__(self, broker: object, context: object, asked: Any) -> None:
        self.topics = asked
        self.parts: list[list[tuple[str, list[int]]]] = broker  # type: ignore[assignment]

    def append(self, part: Any) -> None:
        self.parts.append([(topic, [index for index, _ in some]) for topic, some in part])

    def rest(self) -> Any:
        yield None
        return b"answer"


def of(topic: str, *sizes: int) -> tuple[str, list[tuple[int, memoryview | None]]]:
    return topic, [(index, memoryview(bytes(size)) if size else None) for index, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("topics", "parts"),
    [
        ([of("a", 1, 1), of("b", 1)], [[("a", [0, 1]), ("b", [0])]]),
        ([of("a", *[0] * 24)], [[("a", [*range(24)])]]),
        ([of("a", *[0] * 25)], [[("a", [*range(25)])], []]),
        ([of("a", *[0] * 24), of("b", 0, 0)], [[("a", [*range(24)]), ("b", [0])], [("b", [1])]]),
        ([of("a", 1 << 18, 1)], [[("a", [0])], [("a", [1])]]),
        ([of("a", (1 << 18) - 1, 1, 1)], [[("a", [0, 1])], [("a", [2])]]),
        ([of("a", (1 << 18) - 2, 1)], [[("a", [0, 1])]]),
        ([of("named twice", 1), of("named twice", 1)], [[("named twice", [0]), ("named twice", [0])]]),
        ([], [[]]),
    ],
)
def test_what_is_appended_at_once(monkeypatch: pytest.MonkeyPatch, topics: Any, parts: Any) -> None:
    monkeypatch.setattr(produce, "_Request", Produced)
    named = [("".join(list(topic)), some) for topic, some in topics]  # each with a name of its own
    found = InAThread()
    steps: Any = produce._produce_in_parts(
        cast("Any", found), cast("Any", SimpleNamespace(api_version=9)), memoryview(b""), 3
    )
    assert next(steps)[0] == "apart", "not behind looks that other clients wait for"
    assert to_its_end(steps, named) == (len(parts), b"answer")
    assert [[(topic, indexes) for topic, indexes in part] for part in found] == parts


def group(name: str, topics: list[tuple[str, list[int]]] | None) -> OffsetFetchRequestGroup:
    named = (
        None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in topics]
    )
    return OffsetFetchRequestGroup(group_id=name, topics=named)


def test_groups_are_asked_about_once() -> None:
    first = group("g", [("t", [0, 1]), ("u", [5])])
    turns, found = to_its_end(
        offset_fetch._each_once([first, group("h", None), group("g", [("t", [1, 2])]), group("h", [("t", [1])])])
    )
    assert turns == 0
    assert list(found) == ["g", "h"]
    assert found["g"].group is first
    assert {topic: list(wanted) for (topic, _), wanted in found["g"].topics.items()} == {"t": [0, 1, 2], "u": [5]}
    assert found["h"].topics is None
    turns, found = to_its_end(offset_fetch._each_once([group("g", [])] * (3 * NAMES_A_STEP)))
    assert (turns, list(found)) == (3, ["g"])
    _, found = to_its_end(offset_fetch._each_once([group("g", [("t", [0])]), group("g", None)]))
    assert found["g"].topics is None


@pytest.mark.parametrize(
    ("of_topic", "host", "code"),
    [
        (UUID(int=5), "there", ErrorCode.NONE),
        (UUID(int=6), "there", ErrorCode.UNKNOWN_TOPIC_ID),
        (UUID(int=5), "no topic", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (UUID(int=5), "no kind", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_positions_that_are_coordinated_here(of_topic: UUID, host: str, code: ErrorCode) -> None:
    def hosted(index: int, *, is_over: bool = False) -> Any:
        machine = SimpleNamespace(positions=lambda name, topic_id: iter([{"g": {0: 7, 1: 8}}, {"h": {}}]))
        place = SimpleNamespace(index=index)
        return SimpleNamespace(
            machine=machine,
            partition=place,
            leader_epoch=index + 20,
            is_serving=True,
            is_paused=False,
            is_over=is_over,
        )

    shards = SimpleNamespace(
        topic=None if host == "no topic" else SimpleNamespace(partitions=range(4)),
        serving=lambda: [hosted(1), hosted(2, is_over=True), hosted(3)],
    )
    broker = SimpleNamespace(
        image=SimpleNamespace(topics_by_id={UUID(int=5): SimpleNamespace(name="t", topic_id=5)}),
        coordinators=SimpleNamespace(for_keys=lambda kind: shards),
        may_lead=lambda partition: True,
    )
    request = CommittedPositionsRequest(topic_id=of_topic, key_type=99 if host == "no kind" else 0)
    turns, answer = to_its_end(committed_positions(cast("Any", broker), cast("Any", None), request))
    assert answer.error_code == code
    if code == ErrorCode.NONE:
        assert (turns, answer.partition_count) == (6, 4)
        groups = [("g", [(0, 7), (1, 8)]), ("h", [])]
        assert [
            (
                it.partition,
                it.leader_epoch,
                [(of.group_id, [(one.partition, one.offset) for one in of.positions]) for of in it.groups],
            )
            for it in answer.coordinated
        ] == [(1, 21, groups), (3, 23, groups)]
    else:
        assert (turns, answer.coordinated) == (0, [])


class Told(Broker):
    """A broker that is just enough to be told of."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    node_id = cast("Any", 7)

    @property
    def metrics(self) -> Any:  # type: ignore[override]
        return self._registry


def test_of_what_waits_a_broker_tells_beside_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.add(Gauge(Group.NODE, "One", "", lambda: 1))

    def waiting(broker: Any) -> Any:
        yield None
        return ["what waits"]

    monkeypatch.setattr(describe_metrics, "waiting", waiting)
    _, answer = to_its_end(
        describe_metrics.describe_metrics(Told(registry), cast("Any", None), DescribeMetricsRequest())
    )
    assert (answer.node_id, [str(it) for it in answer.metrics][1:]) == (7, ["what waits"])
    plain = SimpleNamespace(metrics=registry, node_id=8)
    _, answer = to_its_end(
        describe_metrics.describe_metrics(cast("Any", plain), cast("Any", None), DescribeMetricsRequest())
    )
    assert (answer.node_id, [it.name for it in answer.metrics]) == (8, ["One"])


def asking(version: int = 6) -> Any:
    known = SimpleNamespace(name="t")
    image = SimpleNamespace(topics={"t": known}, topics_by_id={UUID(int=5): known})
    return SimpleNamespace(node=SimpleNamespace(image=image), context=SimpleNamespace(api_version=version))


@pytest.mark.parametrize(
    ("topic", "name", "if_there"),
    [
        ("t", "t", "t"),
        ("u", "u", None),
        (DeleteTopicState(name="t"), "t", "t"),
        (DeleteTopicState(name="u"), "u", None),
        (DeleteTopicState(name=None, topic_id=UUID(int=5)), "t", "t"),
        (DeleteTopicState(name=None, topic_id=UUID(int=6)), None, None),
        (DeleteTopicState(name="t", topic_id=UUID(int=5)), None, None),
    ],
)
def test_by_what_a_topic_is_deleted(topic: Any, name: str | None, if_there: str | None) -> None:
    assert (_deletable(asking(), topic), _deletable_if_there(asking(), topic)) == (name, if_there)


@pytest.mark.parametrize(("name", "asked"), [("t", "t"), ("__cluster_metadata", None), ("__consumer_offsets",) * 2])
def test_which_names_need_the_right_to_create(name: str, asked: str | None) -> None:
    assert _creatable(cast("Any", None), SimpleNamespace(name=name)) == asked


@pytest.mark.parametrize(("code", "told"), [(0, (29, -1, -1, [])), (36, (0, 5, 6, ["c"]))])
def test_what_is_created_is_told_without_its_configs(code: int, told: tuple[int, int, int, list[str]]) -> None:
    created = SimpleNamespace(
        error_code=code, topic_config_error_code=0, num_partitions=5, replication_factor=6, configs=["c"]
    )
    _without_configs(created)
    assert (
        created.topic_config_error_code,
        created.num_partitions,
        created.replication_factor,
        created.configs,
    ) == told


@pytest.mark.parametrize(("name", "owner"), [("ada", "User:ada"), ("", None), (None, None)])
def test_for_whom_a_token_is(name: str | None, owner: str | None) -> None:
    request = SimpleNamespace(owner_principal_type="User", owner_principal_name=name)
    assert _token_owner(request) == owner
