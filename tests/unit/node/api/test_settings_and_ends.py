"""What settings come to that are added to or taken from, where partitions end, and what of errors clients hear."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.api.configs.incremental_alter_configs import _changes, _text_then
from penstock.node.api.share_groups.describe_share_group_offsets import _ends
from penstock.node.api.transactions.verification import MOST_TRIES, Knows, _of_all, _told
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import AlterableConfig
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

KEY = "super.users"
SET, DELETE, APPEND, SUBTRACT = range(4)


def broker(**dynamic: str) -> Any:
    config = BrokerConfig.embedded({"log.cleaner.threads": "4", "cordoned.log.dirs": "", "log.dirs": "/a,/b,/c"})
    named = {key.replace("_", "."): value for key, value in dynamic.items()}
    config.apply_dynamic(broker=named, default={"log.cleaner.threads": "3"})
    return SimpleNamespace(config=config)


@pytest.mark.parametrize(
    ("operation", "name", "value", "then"),
    [
        (SET, "log.cleaner.threads", "9", "9"),
        (SET, "cordoned.log.dirs", None, None),
        (DELETE, "log.cleaner.threads", None, "3"),
        (DELETE, "cordoned.log.dirs", None, ""),
        (APPEND, "cordoned.log.dirs", "/c, /a,/c", "/a,/b,/c,/c"),
        (APPEND, "cordoned.log.dirs", "/b", "/a,/b"),
        (SUBTRACT, "cordoned.log.dirs", "/a,/c", "/b"),
        (SUBTRACT, "cordoned.log.dirs", "/c", "/a,/b"),
        (SUBTRACT, "cordoned.log.dirs", "/a, /b", ""),
    ],
)
def test_what_a_key_comes_to(operation: int, name: str, value: str | None, then: str | None) -> None:
    change = AlterableConfig(name=name, config_operation=operation, value=value)
    node = broker(log_cleaner_threads="2", cordoned_log_dirs="/a, /b")
    *_, came_to = steps(_text_then(node, change))
    assert came_to == then


def steps(found: Any) -> Iterator[Any]:
    while True:
        try:
            yield next(found)
        except StopIteration as stop:
            yield stop.value
            return


def test_changes_are_looked_at_in_steps() -> None:
    change = AlterableConfig(name="log.cleaner.threads", config_operation=SET, value="9")
    *turns, changes = steps(_changes(broker(), [change, change.replace(config_operation=DELETE, value=None)]))
    assert [(one.name, one.given, one.then) for one in changes] == [
        ("log.cleaner.threads", "9", "9"),
        ("log.cleaner.threads", "", "3"),
    ]
    assert turns == []
    *turns, changes = steps(_changes(broker(), [change.replace(value="9" * 1_000_000)] * 3))
    assert (len(turns), len(changes)) == (3, 3)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ErrorCode.NONE, ErrorCode.NONE),
    ],
)
def test_nobody_hears_of_rights_of_nodes(code: ErrorCode, told: ErrorCode) -> None:
    assert _of_all(code) is told


E, K = ErrorCode, Knows


@pytest.mark.parametrize(
    ("code", "told"),
    [
        *(
            (code, (E.NOT_ENOUGH_REPLICAS,) * 3)
            for code in (
                *(E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE),
                *(E.NOT_COORDINATOR, E.LEADER_NOT_AVAILABLE),
            )
        ),
        (E.CONCURRENT_TRANSACTIONS, (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS)),
        (E.PRODUCER_FENCED, (E.INVALID_PRODUCER_EPOCH,) * 3),
        (E.TRANSACTION_ABORTABLE, (E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE)),
        (E.INVALID_PRODUCER_ID_MAPPING, (E.INVALID_PRODUCER_ID_MAPPING,) * 3),
    ],
)
def test_a_client_hears_what_it_knows(code: ErrorCode, told: tuple[ErrorCode, ...]) -> None:
    assert tuple(_told(code, knows) for knows in Knows) == told
    assert MOST_TRIES == 3


class Errands:
    """Partition n of `a` is led by broker n; 2 cannot be reached, and 3 does not know."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ListOffsetsRequest]] = []

    def leader_of(self, topic: str, index: int) -> int:
        if topic != "a":
            raise KafkaError(E.UNKNOWN_TOPIC_OR_PARTITION)
        return index % 4

    async def ask_broker(self, broker_id: int, request: ListOffsetsRequest, _: object) -> ListOffsetsResponse:
        self.asked.append((broker_id, request))
        if broker_id == 2:
            raise KafkaError(E.NETWORK_EXCEPTION)
        code = E.NOT_LEADER_OR_FOLLOWER if broker_id == 3 else E.NONE
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=it.partition_index, error_code=code, offset=10 * it.partition_index
                        )
                        for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


async def test_where_partitions_end_or_why_nobody_knows() -> None:
    errands = Errands()
    node = SimpleNamespace(groups=SimpleNamespace(context=SimpleNamespace(errands=errands)))
    ends = await _ends(cast("Any", node), [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 0)])
    assert ends == {
        ("a", 0): 0,
        ("a", 4): 40,
        ("a", 1): 10,
        ("a", 2): E.NETWORK_EXCEPTION,
        ("a", 3): E.NOT_LEADER_OR_FOLLOWER,
        ("b", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [broker_id for broker_id, _ in errands.asked] == [0, 1, 2, 3]
    (topic,) = errands.asked[0][1].topics
    assert [(it.partition_index, it.timestamp) for it in topic.partitions] == [(0, -1), (4, -1)]
    assert errands.asked[0][1].replica_id == -1
