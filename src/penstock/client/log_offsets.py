"""Offsets in the log by time: the first, the next, the first at or after a moment. Each partition's leader is asked."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.at_leaders import Ask, Failures, ask_leaders, ask_leaders_that_answer
from penstock.client.cluster import ClusterClient
from penstock.client.messages import Found, Refused, list_offsets_request, listed_offsets
from penstock.client.values import IsolationLevel, OffsetAndTimestamp, TopicPartition
from penstock.protocol.messages.list_offsets import ListOffsetsResponse


async def list_offsets(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Found:
    """The offset for each partition's timestamp: a time in milliseconds or LATEST, EARLIEST or another special value.

    A time after the last record's finds offset -1. READ_COMMITTED makes LATEST the last stable offset.
    """
    return await ask_leaders(cluster, wanted, _asking(cluster, isolation_level))


async def list_offsets_that_can_be_had(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> tuple[Found, Failures]:
    """As `ask_leaders_that_answer`: with the errors of partitions that have no leader or do not exist."""
    return await ask_leaders_that_answer(cluster, wanted, _asking(cluster, isolation_level), timeout_ms=timeout_ms)


def _asking(cluster: ClusterClient, isolation_level: IsolationLevel) -> Ask[int, OffsetAndTimestamp]:
    async def ask(node_id: int, asked: Mapping[TopicPartition, int]) -> tuple[Found, Refused]:
        request = list_offsets_request(asked, isolation_level, cluster.settings.request_timeout_ms)
        return listed_offsets(await cluster.to_node(node_id, request, ListOffsetsResponse))

    return ask
