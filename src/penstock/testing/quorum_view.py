"""What a cluster for tests asks its nodes: the leader of the metadata quorum, and the brokers that a broker knows."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from penstock.client.blocking.connection import BlockingConnection, Response
from penstock.client.errors import ClientError
from penstock.client.security import PLAINTEXT, PREFIXES, WITH_SASL, WITH_TLS, Security
from penstock.metadata.configs.pairs import decode_properties
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
from penstock.protocol.value import Value, fresh

PATIENCE_MS: Final = 2_000
PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.2

Found = TypeVar("Found")


class Way(Value):
    """How to come to nodes."""

    protocol: str = PLAINTEXT
    security: Security = fresh(Security)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "Way":
        """Of a client's file."""
        keys = {key: value for key, value in properties.items() if key.startswith(PREFIXES)}
        return cls(properties.get("security.protocol", PLAINTEXT), Security(keys))


IN_THE_CLEAR: Final = Way()


def way_of(file: Path) -> Way:
    """OSError where it cannot be read."""
    return Way.of(decode_properties(file.read_bytes()))


def active_controller(addresses: Iterable[str], way: Way = IN_THE_CLEAR) -> int | None:
    """The node that claims to lead the quorum in the newest epoch; None without a claim."""
    claims = [claim for address in addresses if (claim := _claim(address, way)) is not None]
    return max(claims)[1] if claims else None


def known_brokers(address: str, way: Way = IN_THE_CLEAR) -> set[int]:
    """Brokers in service, as this one sees them; none if it does not answer."""
    response = _ask(address, way, ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
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


def _claim(address: str, way: Way) -> tuple[int, int] | None:
    """The epoch and the leader, if the node at this address knows them at first hand."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    response = _ask(address, way, ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    if response is None:
        return None
    rows = [row for answered in response.topics for row in answered.partitions if not row.error_code]
    if response.error_code or not rows or rows[0].leader_id < 0:
        return None
    return rows[0].leader_epoch, rows[0].leader_id


def _ask(address: str, way: Way, api_key: ApiKey, request: Message, response_class: type[Response]) -> Response | None:
    """None if the node does not answer."""
    try:
        connection = BlockingConnection(
            parse_address(address),
            client_id="penstock-testing",
            connect_timeout_ms=PATIENCE_MS,
            request_timeout_ms=PATIENCE_MS,
            tls=way.security.context() if way.protocol in WITH_TLS else None,
            log_in=way.security.steps if way.protocol in WITH_SASL else None,
        )
        with closing(connection):
            return connection.request(api_key, request, response_class)
    except (OSError, KafkaError, ClientError):
        return None
