"""What `penstock security doctor` makes of what a cluster says about rights."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.cli.security import rights
from penstock.cli.security.examination import EndError
from penstock.cli.security.rights import ATTEMPTS, asked, on_cluster, on_group, on_topic, words
from penstock.client.blocking.connection import BlockingConnection
from penstock.protocol.acls import Operation
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

READ, WRITE, DESCRIBE = 1 << Operation.READ, 1 << Operation.WRITE, 1 << Operation.DESCRIBE


class Connection:
    """Gives the answers of each API one after the other, the last one again and again."""

    def __init__(self, **answers: list[Message]) -> None:
        self.answers = {ApiKey[name.upper()]: of for name, of in answers.items()}
        self.sent: list[tuple[ApiKey, Message, int]] = []

    def version_of(self, key: ApiKey, newest: int) -> int:
        return newest

    def send(self, key: ApiKey, message: Message, version: int) -> None:
        self.sent.append((key, message, version))

    def receive(self, answer: type[Message]) -> Message:
        of = self.answers[self.sent[-1][0]]
        found = of.pop(0) if len(of) > 1 else of[0]
        assert isinstance(found, answer)
        return found

    @property
    def it(self) -> BlockingConnection:
        return cast("BlockingConnection", self)


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        (-1, "the cluster does not say"),
        (0, "nothing"),
        (READ, "READ"),
        (READ | WRITE | 1 << Operation.ALTER, "READ, WRITE, ALTER"),
        (1 << Operation.ALL | 1 << Operation.ANY | 1 << Operation.UNKNOWN, "nothing"),
        ((1 << 20) - 1, ", ".join(one.name for one in Operation if one > Operation.ALL)),
    ],
)
def test_operations_in_words(operations: int, text: str) -> None:
    assert words(operations) == text


@pytest.mark.parametrize(("newest", "version"), [(0, 0), (5, 5), (99, 6)])
def test_nobody_is_asked_in_a_version_that_there_is_not(newest: int, version: int) -> None:
    connection = Connection(find_coordinator=[FindCoordinatorResponse()])
    asked(connection.it, ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(), FindCoordinatorResponse, newest)
    assert connection.sent == [(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(), version)]


# -- the cluster ------------------------------------------------------------------------------------------------------


def test_rights_on_the_cluster_and_its_brokers() -> None:
    brokers = [
        DescribeClusterBroker(broker_id=3, host="a", port=9),
        DescribeClusterBroker(broker_id=1, host="b", port=8),
    ]
    answer = DescribeClusterResponse(cluster_authorized_operations=DESCRIBE, brokers=brokers)
    connection = Connection(describe_cluster=[answer])
    assert on_cluster(connection.it) == ("on the cluster: DESCRIBE", {3: ("a", 9), 1: ("b", 8)})
    ((_, request, version),) = connection.sent
    assert version == 0
    assert request == DescribeClusterRequest(include_cluster_authorized_operations=True)


def test_a_cluster_that_says_nothing_of_itself() -> None:
    answer = DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(EndError, match="the cluster does not describe itself: CLUSTER_AUTHORIZATION_FAILED") as raised:
        on_cluster(Connection(describe_cluster=[answer]).it)
    assert raised.value.stage == "RIGHTS"


# -- topics -----------------------------------------------------------------------------------------------------------


def of_topic(code: ErrorCode, operations: int, *wanted: Operation) -> tuple[str, Connection]:
    row = MetadataResponseTopic(name="t", error_code=code, topic_authorized_operations=operations)
    connection = Connection(metadata=[MetadataResponse(topics=[row])])
    return on_topic(connection.it, "User:a", "t", wanted), connection


MAY_NOT = (
    "User:a may not {} on topic t: `penstock acls --add --allow-principal User:a {} --topic t`, by somebody who may"
)


def test_a_topic_is_asked_about_and_not_made() -> None:
    _, connection = of_topic(ErrorCode.NONE, DESCRIBE)
    ((key, request, version),) = connection.sent
    assert isinstance(request, MetadataRequest)
    assert (key, version, [row.name for row in request.topics or []]) == (ApiKey.METADATA, 12, ["t"])
    assert (request.allow_auto_topic_creation, request.include_topic_authorized_operations) == (False, True)


@pytest.mark.parametrize(
    ("code", "operations", "wanted", "text"),
    [
        (ErrorCode.NONE, DESCRIBE, (), "on topic t: DESCRIBE"),
        (ErrorCode.NONE, READ | WRITE, (Operation.READ, Operation.WRITE), "on topic t: READ, WRITE"),
        (ErrorCode.NONE, -1, (Operation.READ,), "on topic t: the cluster does not say"),
    ],
)
def test_what_may_be_done_with_a_topic(
    code: ErrorCode, operations: int, wanted: tuple[Operation, ...], text: str
) -> None:
    assert of_topic(code, operations, *wanted)[0] == text


@pytest.mark.parametrize(
    ("code", "operations", "wanted", "text"),
    [
        (ErrorCode.NONE, READ, (), MAY_NOT.format("DESCRIBE", "--operation DESCRIBE")),
        (ErrorCode.NONE, READ, (Operation.READ, Operation.WRITE), MAY_NOT.format("WRITE", "--operation WRITE")),
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            READ,
            (Operation.READ, Operation.WRITE),
            MAY_NOT.format("READ nor WRITE", "--operation READ --operation WRITE"),
        ),
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            READ,
            (Operation.READ,),
            "there is no topic t: make it with `penstock topics --create --topic t`",
        ),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, READ, (Operation.READ,), "topic t: INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_what_may_not_be_done_with_a_topic(
    code: ErrorCode, operations: int, wanted: tuple[Operation, ...], text: str
) -> None:
    with pytest.raises(EndError) as raised:
        of_topic(code, operations, *wanted)
    assert (raised.value.stage, str(raised.value)) == ("RIGHTS", text)


# -- groups -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    taken: list[str] = []

    class Pauses:
        def take(self) -> None:
            taken.append("pause")

    monkeypatch.setattr(rights, "Pauses", Pauses)
    return taken


def found(code: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code)


def told(code: ErrorCode, operations: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=code, authorized_operations=operations)])


Ask = Callable[[list[Message], list[Message]], tuple[str, Connection]]


def of_group(coordinators: list[Message], groups: list[Message]) -> tuple[str, Connection]:
    connection = Connection(find_coordinator=coordinators, describe_groups=groups)
    return on_group(connection.it, "User:a", "g"), connection


def test_a_group_is_asked_about_at_its_coordinator(pauses: list[str]) -> None:
    text, connection = of_group([found()], [told(ErrorCode.NONE, READ | DESCRIBE)])
    assert text == "on group g: READ, DESCRIBE"
    assert connection.sent == [
        (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 3),
        (ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5),
    ]
    assert pauses == []


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_is_to_come_is_waited_for(code: ErrorCode, pauses: list[str]) -> None:
    text, _ = of_group([found(code), found()], [told(code, 0), told(ErrorCode.NONE, READ)])
    assert (text, pauses) == ("on group g: READ", ["pause"] * 2)


def test_one_that_does_not_come_is_told_and_no_fault(pauses: list[str]) -> None:
    text, connection = of_group([found(ErrorCode.COORDINATOR_NOT_AVAILABLE)], [told(ErrorCode.NONE, READ)])
    assert text == "on group g: COORDINATOR_NOT_AVAILABLE, the cluster does not say"
    assert (len(connection.sent), len(pauses)) == (ATTEMPTS, ATTEMPTS) == (8, 8)


def test_another_broker_than_the_coordinator_knows_no_rights(pauses: list[str]) -> None:
    text, _ = of_group([found()], [told(ErrorCode.NOT_COORDINATOR, -1)])
    assert (text, pauses) == ("on group g: NOT_COORDINATOR, the cluster does not say", [])


@pytest.mark.parametrize(
    ("coordinator", "group"),
    [
        (found(ErrorCode.GROUP_AUTHORIZATION_FAILED), told(ErrorCode.NONE, READ)),
        (found(), told(ErrorCode.GROUP_AUTHORIZATION_FAILED, 0)),
        (found(), told(ErrorCode.NONE, DESCRIBE)),
    ],
)
def test_who_may_not_read_as_a_group(coordinator: Message, group: Message, pauses: list[str]) -> None:
    with pytest.raises(EndError) as raised:
        of_group([coordinator], [group])
    cure = "`penstock acls --add --allow-principal User:a --operation READ --group g`, by somebody who may"
    assert str(raised.value) == f"User:a may not READ on group g: {cure}"


def test_another_refusal_of_the_coordinator_says_nothing_of_rights(pauses: list[str]) -> None:
    told_: Any = told(ErrorCode.NONE, 0)
    text, _ = of_group([found(ErrorCode.INVALID_GROUP_ID)], [told_])
    assert text == "on group g: the cluster does not say"
