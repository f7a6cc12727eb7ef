"""What is looked at before a coordinator is asked: rights by the kind of key, an empty request, who is paused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api.broker.find_coordinator import _check_right
from penstock.node.api.share_groups.states import ask
from penstock.node.api.transactions.add_partitions_to_txn import OF_BROKERS, OF_CLIENTS
from penstock.node.api.transactions.write_txn_markers import _of_groups
from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTION, Right
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerPartitionResult

RIGHTS = (DESCRIBE_GROUP, DESCRIBE_TRANSACTION, CLUSTER_ACTION)
GROUP, TRANSACTION, SHARE = range(3)
E = ErrorCode


@pytest.mark.parametrize(
    ("kind", "version", "lacks", "code"),
    [
        *((kind, 6, None, None) for kind in (GROUP, TRANSACTION, SHARE)),
        (GROUP, 6, DESCRIBE_GROUP, E.GROUP_AUTHORIZATION_FAILED),
        (TRANSACTION, 6, DESCRIBE_TRANSACTION, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (SHARE, 6, CLUSTER_ACTION, E.CLUSTER_AUTHORIZATION_FAILED),
        (GROUP, 6, CLUSTER_ACTION, None),
        (GROUP, 6, DESCRIBE_TRANSACTION, None),
        (TRANSACTION, 6, CLUSTER_ACTION, None),
        (SHARE, 6, DESCRIBE_GROUP, None),
        (SHARE, 5, None, E.INVALID_REQUEST),
        (GROUP, 5, None, None),
    ],
)
def test_which_right_a_key_needs(kind: int, version: int, lacks: Right | None, code: ErrorCode | None) -> None:
    context = SimpleNamespace(api_version=version, allows=lambda right, name="kafka-cluster": right != lacks)
    if code is None:
        _check_right(cast("Any", context), kind, "k")
        return
    with pytest.raises(KafkaError) as refused:
        _check_right(cast("Any", context), kind, "k")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("group_id", "partitions", "is_asked"),
    [("g", [[1], [2]], True), ("g", [[1], []], False), ("g", [[], []], False), (" ", [[1]], False), ("", [[1]], False)],
)
def test_a_request_that_names_nothing_is_answered_with_nothing(
    group_id: str, partitions: list[list[int]], is_asked: bool
) -> None:
    class FoundError(Exception): ...

    def find(text: str) -> None:
        raise FoundError

    topics = [
        SimpleNamespace(topic_id=UUID(int=number), partitions=[SimpleNamespace(partition=it) for it in some])
        for number, some in enumerate(partitions)
    ]
    api = SimpleNamespace(response=lambda: "nothing")
    broker = SimpleNamespace(shares=SimpleNamespace(find=find))
    request = SimpleNamespace(group_id=group_id, topics=topics)
    if is_asked:
        with pytest.raises(FoundError):
            ask(cast("Any", broker), cast("Any", api), request)
    else:
        assert ask(cast("Any", broker), cast("Any", api), request) == "nothing"


@pytest.mark.parametrize(
    ("hosted", "code", "told"),
    [
        ("there", E.NONE, E.NONE),
        ("there", E.TRANSACTION_COORDINATOR_FENCED, E.TRANSACTION_COORDINATOR_FENCED),
        ("there", E.NOT_COORDINATOR, E.NOT_LEADER_OR_FOLLOWER),
        ("away", E.NONE, E.NOT_LEADER_OR_FOLLOWER),
        ("does not serve", E.NONE, E.NOT_LEADER_OR_FOLLOWER),
        ("paused", E.NONE, E.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_which_shard_ends_a_transaction(hosted: str, code: ErrorCode, told: ErrorCode) -> None:
    asked: list[Any] = []

    def answer(*of: Any) -> ErrorCode:
        asked.append(of)
        return code

    shard = SimpleNamespace(
        is_serving=hosted != "does not serve",
        is_paused=hosted == "paused",
        ask=answer,
        machine=SimpleNamespace(end_transaction="ends"),
    )
    groups = SimpleNamespace(hosted=lambda index: None if hosted == "away" or index != 4 else shard)
    marker = WritableTxnMarker(producer_id=5, producer_epoch=6, transaction_result=True, coordinator_epoch=7)
    result = WritableTxnMarkerPartitionResult(partition_index=4)
    await _of_groups(cast("Any", SimpleNamespace(groups=groups)), marker, 4, result)
    assert result.error_code == told
    assert len(asked) == (hosted == "there")


def test_which_version_of_transactions_is_meant() -> None:
    assert (OF_BROKERS, OF_CLIENTS) == (2, 0)
