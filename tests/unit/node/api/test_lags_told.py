"""How far a share group is behind in each partition, and where that is known from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.node.api.share_groups import describe_share_group_offsets as module
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import list_offsets as layout
from penstock.protocol.messages.read_share_group_state_summary import PartitionResult

LOST = ErrorCode.NOT_LEADER_OR_FOLLOWER


def summary(start: int = 3, complete: int = 2, leader: int = 4, code: int = 0) -> PartitionResult:
    return PartitionResult(start_offset=start, delivery_complete_count=complete, leader_epoch=leader, error_code=code)


@pytest.mark.parametrize(
    ("found", "end", "told"),
    [
        (summary(), 20, (3, 4, 15, 0)),
        (summary(), 5, (3, 4, 0, 0)),
        (summary(start=0, complete=0), 20, (0, 4, 20, 0)),
        (summary(), LOST, (3, 4, -1, LOST)),
        (summary(complete=-1), 20, (3, 4, -1, 0)),
        (summary(complete=-1), LOST, (3, 4, -1, 0)),
        (summary(start=-1), 20, (-1, 4, -1, 0)),
        (summary(leader=-1), 20, (3, 0, 15, 0)),
        (summary(leader=0), 20, (3, 0, 15, 0)),
        (summary(code=LOST), 20, (-1, 0, -1, 0)),
        (None, 20, (-1, 0, -1, 0)),
    ],
)
def test_what_a_group_lacks(
    found: PartitionResult | None, end: int | ErrorCode, told: tuple[int, int, int, int]
) -> None:
    it = module._told(7, found, end)
    assert (it.partition_index, it.start_offset, it.leader_epoch, it.lag, it.error_code) == (7, *told)


async def test_each_leader_is_asked_once_where_its_partitions_end() -> None:
    asked: list[Any] = []

    def leader_of(name: str, index: int) -> int:
        if name == "gone":
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return index % 3

    async def ask_broker(leader: int, request: Any, answer: type[Any]) -> Any:
        named = [(topic.name, [it.partition_index for it in topic.partitions]) for topic in request.topics]
        asked.append((leader, request.replica_id, named))
        assert {it.timestamp for topic in request.topics for it in topic.partitions} == {-1}
        if leader == 2:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return answer(
            topics=[
                layout.ListOffsetsTopicResponse(
                    name=name,
                    partitions=[
                        layout.ListOffsetsPartitionResponse(
                            partition_index=index, offset=100 + index, error_code=LOST if index == 4 else 0
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in named
            ]
        )

    errands = SimpleNamespace(leader_of=leader_of, ask_broker=ask_broker)
    broker: Any = SimpleNamespace(groups=SimpleNamespace(context=SimpleNamespace(errands=errands)))
    places = [("t", 0), ("u", 3), ("t", 1), ("t", 3), ("gone", 0), ("u", 2), ("t", 4)]
    ends = await module._ends(broker, places)
    assert asked == [
        (0, -1, [("t", [0, 3]), ("u", [3])]),
        (1, -1, [("t", [1, 4])]),
        (2, -1, [("u", [2])]),
    ]
    assert ends == {
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): 100,
        ("t", 3): 103,
        ("u", 3): 103,
        ("t", 1): 101,
        ("t", 4): LOST,
        ("u", 2): ErrorCode.NETWORK_EXCEPTION,
    }
