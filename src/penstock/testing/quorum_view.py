"""What a cluster for tests asks its nodes: the leader of the metadata quorum, and the brokers that a broker knows."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final, TypeVar

from penstock.client.blocking.connection import BlockingConnection, Response
from penstock.protocol.address import parse_address
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

PATIENCE_MS: Final = 2_000
PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.2

Found = TypeVar("Found")


def active_controller(addresses: Iterable[str]) -> int | None:
    """The node that claims to lead the quorum in the newest epoch; None without a claim."""
    claims = [claim for address in addresses if (claim := _claim(address)) is not None]
    return max(claims)[1] if claims else None


def known_brokers(address: str) -> set[int]:
    """Brokers in service, as this one sees them; none if it does not answer."""
    response = _ask(address, ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
    return set() if response is None else {broker.node_id for broker in response.brokers}


def wait_until(look: Callable[[], Found | None], seconds: float, what: str) -> Found:
    """Repeats until there is a result. Raises TimeoutError, which names what was awaited.

    The pauses are longer than the looks, so that the processor is free for the others.
    """
    began = time.monotonic()
    deadline = began + seconds
    while (found := look()) is None:
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} seconds")
        time.sleep(min(max(PAUSE_S, 2 * (now - began)), LONGEST_PAUSE_S))
        began = time.monotonic()
    return found


def _claim(address: str) -> tuple[int, int] | None:
    """The epoch and the leader, if the node at this address knows them at first hand."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = _ask(address, ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    if response is None:
        return None
    rows = [row for answered in response.topics for row in answered.partitions if not row.error_code]
    if response.error_code or not rows or rows[0].leader_id < 0:
        return None
    return rows[0].leader_epoch, rows[0].leader_id


def _ask(address: str, api_key: ApiKey, request: Message, response_class: type[Response]) -> Response | None:
    """None if the node does not answer."""
    try:
        connection = BlockingConnection(
            parse_address(address),
            client_id="penstock-testing",
            connect_timeout_ms=PATIENCE_MS,
            request_timeout_ms=PATIENCE_MS,
        )
        with closing(connection):
            return connection.request(api_key, request, response_class)
    except (OSError, KafkaError):
        return None
