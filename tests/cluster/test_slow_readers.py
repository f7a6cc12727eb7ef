"""Clients that ask and never read: the node holds back, and grows by its buffers, not by what was asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import psutil
import pytest
from tests.wire.raw_client import RawClient, batch_of, fetch_request

from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.schema import Message
from penstock.testing import Cluster

MEGABYTE = 1 << 20
TOPIC = "large"
BATCHES = 64
READERS = 20
ENOUGH_ANSWERS = 200
ALLOWED_GROWTH = 64 * MEGABYTE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster, RawClient(cluster.bootstrap_servers) as client:
        client.create_topic(TOPIC)
        batch = batch_of(b"v" * 1_000_000)
        for _ in range(BATCHES):
            assert client.produce(TOPIC, batch).error_code == 0
        yield cluster


def pipelined(request: Message, version: int) -> bytes:
    """Some thousand times the same request, a megabyte at least."""
    once = encode_request(request, version, 1, "slow")
    return once * (MEGABYTE // len(once) + 1)


def send_until_held_back(client: RawClient, data: bytes, neighbour: RawClient) -> int:
    """Send on and on; how many bytes were taken before none were while the node answered somebody else often."""
    client.socket.setblocking(False)
    sent, refused = 0, 0
    while refused < ENOUGH_ANSWERS and sent < 64 * len(data):
        try:
            sent += client.socket.send(data[sent % len(data) :])
            refused = 0
        except BlockingIOError:
            refused += 1
            assert neighbour.lives()
    return sent


REQUESTS = {
    "fetches": (fetch_request(TOPIC, 0, max_bytes=BATCHES * MEGABYTE, partition_max_bytes=BATCHES * MEGABYTE), 12),
    "descriptions": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)
                for _ in range(20)
            ],
            include_documentation=True,
        ),
        4,
    ),
}


@pytest.mark.parametrize(("request_", "version"), REQUESTS.values(), ids=REQUESTS)
def test_who_does_not_read_is_held_back(cluster: Cluster, request_: Message, version: int) -> None:
    process = psutil.Process(cluster.pid)
    with RawClient(cluster.bootstrap_servers) as neighbour:
        assert neighbour.fetch(TOPIC, 0).error_code == 0
        before = process.memory_info().rss
        slow = [RawClient(cluster.bootstrap_servers, receive_buffer_bytes=4096) for _ in range(READERS)]
        data = pipelined(request_, version)
        for client in slow:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        taken = [send_until_held_back(client, data, neighbour) for client in slow]
        assert max(taken) < 16 * MEGABYTE
        assert neighbour.fetch(TOPIC, 0).error_code == 0
        assert neighbour.lives()
        assert process.memory_info().rss < before + ALLOWED_GROWTH
        for client in slow:
            client.close()
        assert neighbour.lives()
