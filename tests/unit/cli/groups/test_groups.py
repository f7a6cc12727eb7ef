"""Which groups `penstock groups` takes for whose, and what it makes of a refusal."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from penstock.cli.groups.groups import STATES, Request, _filter, _is_meant, _why_not
from penstock.cli.groups.history import awaited_table, history_table
from penstock.cli.groups.reset import check_empty
from penstock.cli.groups.views import Table, members_table, print_tables, show_assignment, show_groups, states_table
from penstock.client.admin import Admin
from penstock.client.admin.group_history import AwaitedMember, EpochDescription, GroupHistory, MemberTime
from penstock.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from penstock.client.metadata import BrokerMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError

LISTED = {
    "classic": GroupListing("classic", "consumer", "Stable", "classic"),
    "simple": GroupListing("simple", "", "Empty", "classic"),
    "new": GroupListing("new", "consumer", "Stable", "consumer"),
    "odd": GroupListing("odd", "another", "Stable", "consumer"),
    "connect": GroupListing("connect", "connect", "Stable", "classic"),
    "share": GroupListing("share", "share", "Stable", "share"),
    "streams": GroupListing("streams", "streams", "Stable", "streams"),
}


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, list(LISTED)),
        ({"consumer": True}, ["classic", "simple", "new", "odd"]),
        ({"share": True}, ["share"]),
        ({"streams": True}, ["streams"]),
        ({"share": True, "streams": True}, ["share", "streams"]),
        ({"consumer": True, "share": True}, ["classic", "simple", "new", "odd", "share"]),
        ({"protocol": "consumer"}, ["classic", "new"]),
        ({"protocol": ""}, ["simple"]),
        ({"protocol": "connect"}, ["connect"]),
        ({"protocol": "connect", "consumer": True}, []),
        ({"protocol": "another", "consumer": True}, ["odd"]),
    ],
)
def test_which_groups_are_meant(asked: dict[str, Any], names: list[str]) -> None:
    usual: dict[str, Any] = {"consumer": False, "share": False, "streams": False, "protocol": None}
    request = cast("Request", SimpleNamespace(**(usual | asked)))
    assert [name for name, one in LISTED.items() if _is_meant(request, one)] == names


@pytest.mark.parametrize(
    ("text", "names", "found"),
    [
        (None, STATES, []),
        ("", STATES, []),
        (" , ", STATES, []),
        ("stable", STATES, ["Stable"]),
        ("EMPTY, preparingrebalance,", STATES, ["Empty", "PreparingRebalance"]),
        ("Classic,x", (), ["Classic", "x"]),
    ],
)
def test_states_and_types_of_a_list(text: str | None, names: tuple[str, ...], found: list[str]) -> None:
    assert _filter(text, names) == found


def test_a_state_that_there_is_not() -> None:
    with pytest.raises(click.UsageError, match="--state: 'odd' is no state; they are Empty, Stable, Dead, "):
        _filter("stable,odd", STATES)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.NON_EMPTY_GROUP, "group 'g' has members: stop its consumers first (NON_EMPTY_GROUP)"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "group 'g' does not exist (GROUP_ID_NOT_FOUND)"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "group 'g': GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_why_a_group_is_not_deleted(code: ErrorCode, text: str) -> None:
    assert _why_not("g", KafkaError(code)) == text


# -- whether it is empty ----------------------------------------------------------------------------------------------


def admin(answer: GroupDescription | KafkaError) -> Admin:
    async def describe(_: str) -> GroupDescription:
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    return cast("Admin", SimpleNamespace(groups=SimpleNamespace(describe=describe)))


def group(name: str, protocol: str, *members: MemberDescription, state: str = "Stable") -> GroupDescription:
    return GroupDescription(name, state, protocol, "range", 1, list(members))


@pytest.mark.parametrize("state", ["Empty", "Dead"])
async def test_a_group_without_members_may_be_given_offsets(state: str) -> None:
    found = group("g", "consumer", state=state)
    assert await check_empty(admin(found), "g") is found


async def test_one_with_members_may_not() -> None:
    with pytest.raises(click.ClickException) as raised:
        await check_empty(admin(group("g", "consumer")), "g", "wait")
    assert raised.value.message == "group 'g' has members (its state is Stable): wait"


async def test_one_that_is_not_there_yet_may_be_given_offsets() -> None:
    assert await check_empty(admin(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)), "g") is None
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        await check_empty(admin(KafkaError(ErrorCode.NOT_COORDINATOR)), "g")


# -- tables -----------------------------------------------------------------------------------------------------------


def member(name: str, *numbers: int, **more: Any) -> MemberDescription:
    assignment = [TopicPartition("t", number) for number in numbers]
    return MemberDescription(name, f"i-{name}", f"c-{name}", "/h", assignment, b"", b"").replace(**more)


def test_one_group_of_workers_gives_all_a_column_of_tasks() -> None:
    groups = [group("g", "consumer", member("a", 0, 2)), group("w", "penstock-work", member("b"))]
    table = members_table(groups, verbose=False)
    assert table.columns == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "PARTITIONS", "TASKS", "HEARTBEAT-AGE"]
    assert table.rows == [("g", "a", "/h", "c-a", 2, 0, None), ("w", "b", "/h", "c-b", 0, 0, None)]
    verbose = members_table(groups[:1], verbose=True)
    assert verbose.columns[4:] == ["PARTITIONS", "HEARTBEAT-AGE", "GROUP-INSTANCE-ID", "ASSIGNMENT"]
    assert verbose.rows == [("g", "a", "/h", "c-a", 2, None, "i-a", "t(0,2)")]


def test_assignments_are_told_by_topic() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert show_assignment(partitions) == "b(1,0) a(0)"
    assert show_assignment([]) == ""


@pytest.mark.parametrize(("brokers", "where"), [({1: "h:9"}, "h:9 (1)"), ({}, "1"), ({2: "h:9"}, "1")])
def test_where_the_coordinator_is(brokers: Mapping[int, str], where: str) -> None:
    known = {node: BrokerMetadata(node, Address("h", 9), None) for node in brokers}
    client = cast("Admin", SimpleNamespace(cluster=SimpleNamespace(metadata=SimpleNamespace(brokers=known))))
    table = states_table(client, [group("g", "consumer", member("a"), member("b"))])
    assert table.rows == [("g", where, "range", "Stable", 2)]


def test_tables_one_below_the_other_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    tables = {"a": Table(["N"], [(1,)], "no a"), "b": Table(["N"], [], "no b"), "c": Table(["N"], [(2,)], "no c")}
    print_tables(tables, as_json=False)
    assert capsys.readouterr() == ("N\n1\n\n\nN\n2\n", "no b\n")
    print_tables({"a": tables["a"]}, as_json=True)
    assert capsys.readouterr().out == '[\n  {\n    "n": 1\n  }\n]\n'
    print_tables({"a": tables["a"], "b": tables["b"]}, as_json=True)
    assert capsys.readouterr().out == '{\n  "a": [\n    {\n      "n": 1\n    }\n  ],\n  "b": []\n}\n'


@pytest.mark.parametrize(
    ("asked", "as_json", "text"),
    [
        ([], False, "share\nsimple\n"),
        (["STATE"], False, "GROUP   STATE\nshare   Stable\nsimple  Empty\n"),
        (["TYPE", "PROTOCOL"], False, "GROUP   PROTOCOL  TYPE\nshare   share     share\nsimple            classic\n"),
    ],
)
def test_the_columns_of_a_list(asked: list[str], as_json: bool, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_groups([LISTED["share"], LISTED["simple"]], asked, as_json)
    assert capsys.readouterr().out == text


def test_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    show_groups([], [], as_json=False)
    assert capsys.readouterr().out == ""
    show_groups([], ["STATE"], as_json=False)
    assert capsys.readouterr() == ("", "no groups\n")
    show_groups([], [], as_json=True)
    assert capsys.readouterr().out == "[]\n"


# -- history ----------------------------------------------------------------------------------------------------------


def epoch(*times: MemberTime, **fields: Any) -> EpochDescription:
    told: dict[str, Any] = {
        "formed_ms": 1_000,
        "ended_ms": 3_500,
        "members": 2,
        "cause": "why",
        "unnamed": 0,
        "moved": 1,
    }
    return EpochDescription(
        number=0, kind="consumer", epoch=4, started_ms=1_000, changes=[], moves=[], times=list(times), **(told | fields)
    )


@pytest.mark.parametrize(
    ("times", "slowest"),
    [
        ([], None),
        ([MemberTime("m", 700, 0)], None),
        ([MemberTime("m", 700, 1)], "m 1 ms"),
        ([MemberTime("m", 700, 600), MemberTime("n", 5, 900)], "m 600 ms"),
    ],
)
def test_the_slowest_of_an_epoch(times: list[MemberTime], slowest: str | None) -> None:
    (row,) = history_table([GroupHistory("g", 5_000, [epoch(*times)], [])]).rows
    assert row == ("g", "consumer", 4, "1970-01-01T00:00:01+00:00", 2_500, 2, 1, "why", slowest)


def test_who_is_waited_for() -> None:
    awaited = [
        AwaitedMember("a", "to join", 2_000, 9_000, [TopicPartition("t", 0), TopicPartition("t", 1)]),
        AwaitedMember("b", "to come", None, None, []),
        AwaitedMember("c", "to go", 0, 0, []),
    ]
    assert awaited_table([GroupHistory("g", 5_000, [], awaited)]).rows == [
        ("g", "a", "to join", 3_000, 4_000, "t-0 t-1"),
        ("g", "b", "to come", None, None, None),
        ("g", "c", "to go", 5_000, -5_000, None),
    ]
