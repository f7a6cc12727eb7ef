"""Which heartbeats change nothing: each condition of that counts alone."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.coordinator.group.consumer import bench as consumers
from tests.unit.coordinator.group.share import bench as shares
from tests.unit.coordinator.group.streams import bench as streams

from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.consumer import heartbeat as of_consumers
from penstock.coordinator.group.consumer import records as consumer_records
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.share import heartbeat as of_shares
from penstock.coordinator.group.share import records as share_records
from penstock.coordinator.group.streams import heartbeat as of_streams
from penstock.coordinator.group.streams import records as streams_records
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import ResourceType
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.protocol.messages.streams_group_heartbeat import KeyValue, StreamsGroupHeartbeatRequest

Asked = tuple[Any, Any, Any, Caller]
"""The house, the group, the request, and who sends it."""
CALLER = Caller("test", "/10.0.0.1", 1)


class Kind:
    """A group whose only member has all, and its usual heartbeat."""

    ask: Callable[..., bool]
    records: Any

    def made(self) -> tuple[Any, Any, Any, Any]:
        """The bench, its house, the group, and the request."""
        raise NotImplementedError


class Consumers(Kind):
    ask = staticmethod(of_consumers._goes_on)
    records = consumer_records

    def made(self) -> tuple[Any, Any, Any, Any]:
        bench = consumers.Bench(consumers.AT_ONCE, a=1)
        bench.join("m", "a", instance_id="i", rack_id="r")
        request = ConsumerGroupHeartbeatRequest(group_id=bench.group.group_id, member_id="m", member_epoch=2)
        return bench, bench.shard.consumers._house, bench.group, request


class Shares(Kind):
    ask = staticmethod(of_shares._goes_on)
    records = share_records

    def made(self) -> tuple[Any, Any, Any, Any]:
        bench = shares.Bench(a=1)
        bench.join("m", "a", rack_id="r")
        bench.settle("m")
        epoch = bench.group.state.epoch
        request = ShareGroupHeartbeatRequest(group_id=bench.group.group_id, member_id="m", member_epoch=epoch)
        return bench, bench.shard.shares._house, bench.group, request


class Streams(Kind):
    ask = staticmethod(of_streams._goes_on)
    records = streams_records

    def made(self) -> tuple[Any, Any, Any, Any]:
        bench = streams.Bench()
        bench.make_internal_topics()
        bench.join("m", instance_id="i", client_tags=[KeyValue(key="zone", value="a")])
        bench.settle("m")
        epoch, said = bench.streams.state.epoch, bench.streams.state.group
        bench.streams.state.put(streams_records.GROUP, ONE, said.replace(stored_description_epoch=1))
        request = StreamsGroupHeartbeatRequest(group_id=streams.GROUP, member_id="m", member_epoch=epoch)
        return bench, bench.shard.streams._house, bench.streams, request


KINDS = {"consumer": Consumers(), "share": Shares(), "streams": Streams()}
REQUESTS: dict[str, dict[str, tuple[dict[str, Any], bool]]] = {
    "consumer": {
        "its instance": ({"instance_id": "i"}, True),
        "another instance": ({"instance_id": "j"}, False),
        "its rack": ({"rack_id": "r"}, True),
        "another rack": ({"rack_id": "s"}, False),
        "a time-out": ({"rebalance_timeout_ms": 30_000}, False),
        "topics": ({"subscribed_topic_names": []}, False),
        "an expression": ({"subscribed_topic_regex": ""}, False),
        "an assignor": ({"server_assignor": "range"}, False),
    },
    "share": {
        "its rack": ({"rack_id": "r"}, True),
        "another rack": ({"rack_id": "s"}, False),
        "topics": ({"subscribed_topic_names": []}, False),
    },
    "streams": {
        "its instance": ({"instance_id": "i"}, True),
        "another instance": ({"instance_id": "j"}, False),
        "endpoints of another epoch": ({"endpoint_information_epoch": 1}, False),
        **{
            name: ({name: value}, False)
            for name, value in {
                "rebalance_timeout_ms": 30_000, "shutdown_application": True, "topology": streams.topology(),
                "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "rack_id": "r", "process_id": "p",
                "user_endpoint": object(), "client_tags": [], "task_offsets": [], "task_end_offsets": [],
            }.items()
        },
    },
}  # fmt: skip
ROWS = [(kind, name, *row) for kind, rows in REQUESTS.items() for name, row in rows.items()]


@pytest.mark.parametrize(
    ("kind", "fields", "goes_on"),
    [(kind, *row) for kind, _, *row in ROWS],
    ids=[f"{kind}: {name}" for kind, name, *_ in ROWS],
)
def test_each_field_of_a_request_counts_alone(kind: str, fields: dict[str, Any], goes_on: bool) -> None:
    _, house, group, request = KINDS[kind].made()
    assert KINDS[kind].ask(house, group, request, CALLER)
    assert KINDS[kind].ask(house, group, request.replace(**fields), CALLER) is goes_on


def _of_the_member(kind: Kind, group: Any, **changes: object) -> None:
    key = kind.records.CURRENT
    group.state.put(key, "m", group.state.current("m").replace(**changes))


def _put_epoch(kind: Kind, group: Any, epoch: int) -> None:
    group.state.put(kind.records.GROUP, ONE, group.state.group.replace(epoch=epoch))


def _put_assignment(kind: Kind, group: Any, epoch: int) -> None:
    group.state.put(kind.records.ASSIGNMENT, ONE, group.state.assignment.replace(epoch=epoch))


def _kill(group: Any) -> None:
    group._is_dead = True


def _has_other_topics(bench: Any) -> None:
    bench.grow("other", 1)


OTHERWISE: dict[str, Callable[[Kind, Any, Any, Any], object]] = {
    "no such member": lambda kind, bench, group, request: group.state.put(kind.records.CURRENT, "m", None),
    "the member is at an epoch before": lambda kind, bench, group, request: _of_the_member(
        kind, group, epoch=request.member_epoch - 1
    ),
    "the group is at the next epoch": lambda kind, bench, group, request: _put_epoch(
        kind, group, request.member_epoch + 1
    ),
    "targets are of an epoch before": lambda kind, bench, group, request: _put_assignment(
        kind, group, request.member_epoch - 1
    ),
    "topics have changed": lambda kind, bench, group, request: _has_other_topics(bench),
    "the group is being deleted": lambda kind, bench, group, request: _kill(group),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("otherwise", OTHERWISE)
def test_all_of_the_group_has_to_be_as_it_was(kind: str, otherwise: str) -> None:
    of = KINDS[kind]
    bench, house, group, request = of.made()
    assert of.ask(house, group, request, CALLER)
    OTHERWISE[otherwise](of, bench, group, request)
    assert not of.ask(house, group, request, CALLER)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_who_has_something_to_give_up_or_waits_for_something_is_looked_at(kind: str) -> None:
    of = KINDS[kind]
    _, house, group, request = of.made()
    _of_the_member(of, group, state=group.state.current("m").state + 1)
    assert not of.ask(house, group, request, CALLER)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epoch", [0, -1, -2])
def test_who_joins_or_leaves_does_not_go_on(kind: str, epoch: int) -> None:
    """Though all epochs are the same."""
    of = KINDS[kind]
    _, house, group, request = of.made()
    for change in (_put_epoch, _put_assignment):
        change(of, group, epoch)
    _of_the_member(of, group, epoch=epoch)
    assert not of.ask(house, group, request.replace(member_epoch=epoch), CALLER)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", [CALLER._replace(client_id="other"), CALLER._replace(client_host="/10.0.0.2")])
def test_a_client_that_calls_itself_otherwise_is_written(kind: str, caller: Caller) -> None:
    of = KINDS[kind]
    _, house, group, request = of.made()
    assert not of.ask(house, group, request, caller)


def test_while_expressions_are_looked_for_members_of_consumer_groups_are_looked_at() -> None:
    of = KINDS["consumer"]
    _, house, group, request = of.made()
    member = group.state.members["m"]
    group.state.put(consumer_records.MEMBER, "m", member.replace(pattern="a.*"))
    assert not of.ask(house, group, request, CALLER)


def _is_not_ready(group: Any) -> None:
    group.configured = group.configured.replace(status=3, detail="missing")


def _is_not_configured(group: Any) -> None:
    group.configured = None


def _ends(group: Any) -> None:
    group.shut_down_by = "n"


def _has_an_older_topology(group: Any) -> None:
    group.state.put(streams_records.MEMBER, "m", group.state.members["m"].replace(topology_epoch=0))


def _is_told_otherwise(group: Any) -> None:
    said = group.state.group.replace(assignment_configs=(("num.standby.replicas", "1"),))
    group.state.put(streams_records.GROUP, ONE, said)


@pytest.mark.parametrize(
    "change",
    [_is_not_ready, _is_not_configured, _ends, _has_an_older_topology, _is_told_otherwise],
    ids=lambda it: it.__name__,
)
def test_what_a_streams_group_is_told_has_to_be_as_it_was(change: Callable[[Any], None]) -> None:
    of = KINDS["streams"]
    _, house, group, request = of.made()
    change(group)
    assert not of.ask(house, group, request, CALLER)


@pytest.mark.parametrize(("stored", "failed", "version", "goes_on"), [
    (1, -1, 1, True), (-1, 1, 1, True), (-1, -1, 1, False), (-1, -1, 0, True), (0, 0, 1, False),
])  # fmt: skip
def test_who_can_send_a_description_is_asked_for_one_that_nobody_has(
    stored: int, failed: int, version: int, goes_on: bool
) -> None:
    of = KINDS["streams"]
    _, house, group, request = of.made()
    said = group.state.group.replace(stored_description_epoch=stored, failed_description_epoch=failed)
    group.state.put(streams_records.GROUP, ONE, said)
    assert of.ask(house, group, request, CALLER._replace(api_version=version)) is goes_on


def test_who_lacks_the_tags_of_the_group_is_told_so() -> None:
    of = KINDS["streams"]
    bench, house, group, request = of.made()
    for tags, goes_on in (("zone", True), ("zone,rack", False)):
        bench.image.apply(
            ConfigRecord(
                resource_type=ResourceType.GROUP,
                resource_name=streams.GROUP,
                name="streams.rack.aware.assignment.tags",
                value=tags,
            )
        )
        said = group.state.group.replace(assignment_configs=house.assignment_configs(streams.GROUP))
        group.state.put(streams_records.GROUP, ONE, said)
        assert of.ask(house, group, request, CALLER) is goes_on
