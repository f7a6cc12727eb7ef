"""Transcripts of commands at a cluster that has two of everything, at one that has nothing, and one that refuses all.

The second one of each has all fields as they are by default but for its names: numbers that mean nothing, texts
that are empty or not there. It comes first, so that what is shown in an order is put into it.
"""

import shlex
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from click.testing import CliRunner
from tests.golden.printed import printed
from tests.golden.shown import said
from tests.golden.test_commands import Reached, vars_of
from tests.unit.client.admin.test_refusals import OF_THE_CLUSTER
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import served_in_a_thread

from penstock.cli.cluster import metadata_quorum, transactions
from penstock.cli.main import main
from penstock.client.admin import users
from penstock.client.values import LATEST
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.describe_quorum import DescribeQuorumResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

Transcript = Callable[[str, Callable[[str], Iterable[object]]], None]
OTHER_NODE = 3
NOW_MS = 10_000_000
OF_PARTITIONS = (ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DELETE_RECORDS, ApiKey.FETCH)
"""Their answers tell of each partition that is asked about, whatever is there."""
NAMES: dict[str, Any] = {
    **dict.fromkeys(("broker_id", "node_id", "leader_id", "replica_id"), OTHER_NODE),
    **dict.fromkeys(("partition_index", "partition_id", "partition"), 1),
    **dict.fromkeys(("name", "topic", "topic_name"), "t"),
    **dict.fromkeys(("group_id", "member_id", "transactional_id", "key", "entity_type"), "another"),
}
"""What the other one is called."""


def other(cls: type[Message]) -> Message:
    return cls(**{name: NAMES[name] for name in cls.__fields__ if name in NAMES})


class Two(Reached):
    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        answer = super().__call__(header, request)
        if isinstance(answer, MetadataResponse):
            self.cluster.partitions = 2
        for one in told_of(header, request, answer):
            doubled(one)
        if isinstance(request, ListOffsetsRequest):
            answer = self._ends(request)
        if isinstance(request, DescribeConfigsRequest) and isinstance(answer, DescribeConfigsResponse):
            self._only_asked(request, answer)
        if isinstance(answer, DescribeClusterResponse) and self.broker is not None:
            for broker in answer.brokers:
                broker.host, broker.port = self.broker.address
        return answer

    def _ends(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index,
                        offset=(100 if row.timestamp == LATEST else 10) + row.partition_index,
                        timestamp=row.partition_index - 1,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    def _only_asked(self, request: DescribeConfigsRequest, answer: DescribeConfigsResponse) -> None:
        for asked, told in zip(request.resources, answer.results, strict=True):
            if asked.configuration_keys == ["min.insync.replicas"]:
                told.configs = [DescribeConfigsResourceResult(name="min.insync.replicas", value="1")]


class Nothing(Reached):
    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        answer = super().__call__(header, request)
        for one in told_of(header, request, answer):
            emptied(one)
        return answer


class Refusing(Reached):
    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        answer = super().__call__(header, request)
        if isinstance(answer, Message) and header.api_key not in OF_THE_CLUSTER:
            refused(answer)
        return answer


def told_of(header: RequestHeader, request: Message, answer: Reply) -> list[Message]:
    """The answer, or what it tells of each that was asked about."""
    if not isinstance(answer, Message) or header.api_key in (*OF_THE_CLUSTER, *OF_PARTITIONS):
        return []
    rows = (
        rows_of(answer) if any(isinstance(value, list) and value for value in vars_of(request).values()) else [answer]
    )
    return [inner for row in rows for inner in rows_of(row)] if isinstance(answer, DescribeQuorumResponse) else rows


def rows_of(message: Message) -> list[Message]:
    arrays = (value for value in vars_of(message).values() if isinstance(value, list))
    return [row for rows in arrays for row in rows if isinstance(row, Message)]


def doubled(message: Message) -> None:
    for name, field in type(message).__fields__.items():
        value = getattr(message, name)
        if isinstance(value, Message):
            doubled(value)
        elif isinstance(value, list) and not isinstance(field.kind, str):
            for item in value:
                doubled(item)
            value.insert(0, other(field.kind))


def refused(message: Message) -> None:
    """Wherever it can say so."""
    if "error_code" in type(message).__fields__:
        message.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # type: ignore[attr-defined]
    for row in rows_of(message):
        refused(row)


def emptied(message: Message) -> None:
    for name, field in type(message).__fields__.items():
        if field.is_array and not isinstance(field.kind, str):
            getattr(message, name).clear()


@pytest.mark.parametrize(
    ("name", "kind"), [("two_of_each", Two), ("nothing_there", Nothing), ("all_refused", Refusing)]
)
def test_commands_that_show(
    name: str, kind: type[Reached], transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "token_bytes", bytes)  # a salt of zeros
    for module in (transactions, metadata_quorum):
        monkeypatch.setattr(module, "wall_clock_ms", lambda: NOW_MS)

    def handle(line: str) -> Iterable[str]:
        with served_in_a_thread(kind()) as broker:  # type: ignore[arg-type]
            result = CliRunner().invoke(main, [*shlex.split(line), "--bootstrap-server", str(broker.address)])
            address = broker.address
            asked = [it for header, it in broker.requests if header.api_key not in OF_THE_CLUSTER]
        if kind is Two:
            yield from map(said, asked)
        output = "\n".join(printed(result)).replace(str(address), "ADDRESS").replace(address.host, "HOST")
        output = output.replace(str(address.port), "PORT")
        yield from output.splitlines()
        assert "a fault of this program" not in output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        if result.exit_code:
            yield f"exit {result.exit_code}"

    transcript(f"{name}.txt", handle)
