"""Offsets for partitions that are not there are refused, each by itself, even where no other of the topic is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, ask, with_topics

from penstock.node.api.broker.offset_commit import offset_commit
from penstock.node.api.transactions.txn_offset_commit import txn_offset_commit
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import offset_commit as plain
from penstock.protocol.messages import txn_offset_commit as transactional

NOWHERE_ID = UUID(int=99)
UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(*topics: plain.OffsetCommitRequestTopic) -> plain.OffsetCommitRequest:
    return plain.OffsetCommitRequest(group_id="readers", topics=list(topics))


def pending(*topics: plain.OffsetCommitRequestTopic) -> transactional.TxnOffsetCommitRequest:
    return transactional.TxnOffsetCommitRequest(
        transactional_id="pay",
        group_id="readers",
        topics=[
            transactional.TxnOffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    transactional.TxnOffsetCommitRequestPartition(partition_index=partition.partition_index)
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


def wanted(name: str, topic_id: UUID, *indexes: int) -> plain.OffsetCommitRequestTopic:
    partitions = [plain.OffsetCommitRequestPartition(partition_index=index) for index in indexes]
    return plain.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)


@pytest.mark.parametrize(
    ("handler", "request_of", "version", "unknown_topic"),
    [
        (offset_commit, commit, 9, UNKNOWN_PARTITION),
        (offset_commit, commit, 10, ErrorCode.UNKNOWN_TOPIC_ID),
        (txn_offset_commit, pending, 5, UNKNOWN_PARTITION),
        (txn_offset_commit, pending, 6, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_what_is_not_there_is_said(
    tmp_path: Path, handler: Any, request_of: Any, version: int, unknown_topic: ErrorCode
) -> None:
    node = with_topics(GroupNode(tmp_path))
    by_id = unknown_topic is ErrorCode.UNKNOWN_TOPIC_ID
    names, ids = ("", ""), (FLIGHTS_ID, NOWHERE_ID)
    if not by_id:
        names, ids = ("flights", "nowhere"), (UUID(int=0), UUID(int=0))
    request = request_of(wanted(names[0], ids[0], 7, 8), wanted(names[1], ids[1], 0))
    answer = await ask(handler, node, version, request)
    assert [
        (topic.topic_id, partition.partition_index, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ] == [(ids[0], 7, UNKNOWN_PARTITION), (ids[0], 8, UNKNOWN_PARTITION), (ids[1], 0, unknown_topic)]
