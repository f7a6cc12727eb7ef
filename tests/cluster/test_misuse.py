"""A day's misuse in a minute: memory returns to where it was, and the node still serves."""

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

CONNECTIONS = 10_000
TOPICS = 1_000
TOPICS_AT_ONCE = 100
GARBAGE_BYTES = 100 * 2**20
CHUNK_BYTES = 2**20
LIMIT_S = 60
ALLOWED_GROWTH = 1.2


class Node:
    """A node in a process of its own, and what it weighs."""

    def __init__(self, cluster: Cluster) -> None:
        host, port = cluster.bootstrap_servers.split(":")
        self.address = (host, int(port))
        self.bootstrap_servers = cluster.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert cluster.pid is not None
        self._process = psutil.Process(cluster.pid)

    def resident_bytes(self) -> int:
        return int(self._process.memory_info().rss)

    def open_files(self) -> int:
        return int(self._process.num_fds())

    def create_and_delete_topics(self, count: int) -> None:
        for first in range(0, count, TOPICS_AT_ONCE):
            names = [f"short-lived-{first + number}" for number in range(TOPICS_AT_ONCE)]
            for created in self.admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
                created.result(LIMIT_S)
            for deleted in self.admin.delete_topics(names).values():
                deleted.result(LIMIT_S)

    def open_and_drop_connections(self, count: int) -> None:
        for number in range(count):
            connection = socket.create_connection(self.address, timeout=LIMIT_S)
            if number % 2:  # half of them vanish with a reset, in the middle of a frame
                connection.sendall(struct.pack(">i", 100) + b"half")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    def send_garbage(self, size: int) -> None:
        sent = 0
        while sent < size:
            try:
                with socket.create_connection(self.address, timeout=LIMIT_S) as connection:
                    while sent < size:
                        sent += CHUNK_BYTES
                        connection.sendall(os.urandom(CHUNK_BYTES))
            except (ConnectionResetError, BrokenPipeError):
                continue  # as it should: the node closed the connection

    def serves(self) -> bool:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all"})
        producer.produce("after-all", b"still here")
        return int(producer.flush(LIMIT_S)) == 0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Cluster(process=True, directory=tmp_path) as cluster:
        yield Node(cluster)


def test_memory_returns_after_misuse(node: Node) -> None:
    node.create_and_delete_topics(TOPICS_AT_ONCE)  # warm: what stays now belongs to the node
    node.open_and_drop_connections(100)
    node.send_garbage(5 * CHUNK_BYTES)
    assert node.serves()
    before, files = node.resident_bytes(), node.open_files()

    node.open_and_drop_connections(CONNECTIONS)
    node.create_and_delete_topics(TOPICS)
    node.send_garbage(GARBAGE_BYTES)

    assert node.serves()
    assert node.resident_bytes() <= before * ALLOWED_GROWTH
    wait_until(lambda: node.open_files() <= files + TOPICS_AT_ONCE or None, LIMIT_S, "connections and logs are closed")
