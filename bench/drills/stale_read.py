"""What a consumer asks a leader while it sleeps, so that it is the first thing that it sees when it wakes up."""

import socket
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench.drills.stale_record import StaleRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request

PATIENCE_S: Final = 60
LATEST: Final = -1


class _Question(NamedTuple):
    """Of the topic's first partition; both requests are of versions that name topics."""

    api: ApiKey
    version: int
    of: Callable[[str], Any]
    answer: Callable[[Any], int]


def _fetch(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[partition])])


def _list_offsets(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


QUESTIONS: Final = {
    "fetch": _Question(ApiKey.FETCH, 11, _fetch, lambda found: found.responses[0].partitions[0].error_code),
    "end": _Question(ApiKey.LIST_OFFSETS, 7, _list_offsets, lambda found: found.topics[0].partitions[0].error_code),
}
"""Records from the beginning on, and where the log ends."""


class StaleRead:
    """A connection to the leader of the topic's first partition, made while it is awake, and one question."""

    def __init__(self, address: str, topic: str, kind: str) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self._question = QUESTIONS[kind]
        self._request = encode_request(self._question.of(topic), self._question.version, 1, "drill")
        self._connection = socket.create_connection((host, int(port)), PATIENCE_S)

    def send(self) -> None:
        """Put the request on its way."""
        self._connection.sendall(self._request)

    def answer(self) -> ErrorCode:
        """What it was told; this ends the connection."""
        with self._connection, self._connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            _, response = decode_response(self._question.api, self._question.version, stream.read(size))
        return ErrorCode(self._question.answer(response))


def questions_and_records(address: str, topic: str, number: int) -> dict[str, StaleRead | StaleRecord]:
    """What consumers ask, and two records, each on a connection of its own to the leader at that address."""
    found: dict[str, StaleRead | StaleRecord] = {kind: StaleRead(address, topic, kind) for kind in QUESTIONS}
    for acks in (-1, 1):
        found[f"acks={acks}"] = StaleRecord(address, topic, b"stale-%d-%d" % (number, acks), acks)
    return found
