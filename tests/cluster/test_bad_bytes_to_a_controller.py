"""A controller listener under fire, in a process of its own: its node leads on, and its memory stays small."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.cluster.started import started
from tests.property.test_controller_garbage import bad_frames
from tests.unit.node.api.controller.quorum_of_core import CLUSTER
from tests.wire.raw_client import RawClient

from penstock.log.directories.formatting import format_directories
from penstock.log.disk import Disk
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.varint import encode_uvarint
from penstock.testing.ports import ReservedPort

FRAMES = 10_000
FRAMES_PER_CONNECTION = 5
NODE_ID = 7_000
MEGABYTE = 1 << 20
ALLOWED_GROWTH = 200 * MEGABYTE


class Node:
    def __init__(self, pid: int, broker: str, controller: str, lines: list[str]) -> None:
        self.broker = broker
        self.controller = controller
        self.lines = lines
        self._status = Path(f"/proc/{pid}/status")

    def peak_bytes(self) -> int:
        """The most memory that the process ever had."""
        (line,) = (line for line in self._status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def creates(self, name: str) -> bool:
        """Whether the controller decides, and commits what it decided."""
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        with RawClient(self.broker) as client:
            (created,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        return bool(created.error_code == 0)

    def faults(self) -> list[str]:
        """What the node blames on itself."""
        return [line for line in self.lines if "Traceback" in line or "a request failed" in line or "no longer" in line]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("bad-bytes")
    list(format_directories(Disk(), [str(directory / "data")], cluster_id=CLUSTER, node_id=NODE_ID, random=Random(1)))
    broker, controller = ReservedPort(), ReservedPort()
    broker.make_way()
    controller.make_way()
    settings = {
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://{broker.address},CONTROLLER://{controller.address}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{NODE_ID}@{controller.address}",
        "log.dirs": str(directory / "data"),
    }
    arguments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with started(directory, *arguments) as process:
        lines: list[str] = []
        assert process.process.stdout is not None
        threading.Thread(target=lines.extend, args=(process.process.stdout,), daemon=True).start()
        yield Node(process.process.pid, broker.address, controller.address, lines)
    broker.release()
    controller.release()


def test_a_controller_goes_on_after_mutated_frames(node: Node) -> None:
    """A few to a connection, which is then read to its end: so the node has seen them all."""
    before = node.peak_bytes()
    frames = list(bad_frames(FRAMES, Random(7)))
    for start in range(0, FRAMES, FRAMES_PER_CONNECTION):
        with RawClient(node.controller) as client:
            some = frames[start : start + FRAMES_PER_CONNECTION]
            client.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in some))
            client.end()
    assert node.creates("after-the-fire")
    assert not node.faults()
    assert node.peak_bytes() < before + ALLOWED_GROWTH


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhihb", key, version, 1, -1, 0)


def many(structure: bytes, count: int) -> bytes:
    return encode_uvarint(count + 1) + structure * count


TINY = {
    "vote": header(ApiKey.VOTE, 2) + bytes(5) + many(b"\x01\x01\x00", 10_000_000),
    "fetch": header(ApiKey.FETCH, 17) + bytes(21) + many(bytes(16) + b"\x01\x00", 2_000_000),
    "add a voter": header(ApiKey.ADD_RAFT_VOTER, 0) + bytes(25) + many(b"\x01\x01\x00\x00\x00", 6_000_000),
    "false length": header(ApiKey.DESCRIBE_QUORUM, 2) + encode_uvarint(1 << 31) + bytes(1_000),
    "envelope": header(ApiKey.ENVELOPE, 0) + encode_uvarint(1 << 31) + bytes(1_000),
}


@pytest.mark.parametrize("name", TINY)
def test_false_lengths_and_tiny_structures_stay_small(node: Node, name: str) -> None:
    before = node.peak_bytes()
    with RawClient(node.controller) as client:
        client.send_frame(TINY[name] + bytes(10))
        assert client.is_closed()
    assert node.peak_bytes() < before + ALLOWED_GROWTH
    assert node.creates(f"after-{name}".replace(" ", "-"))
