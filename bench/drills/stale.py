"""A request that reaches a node while it sleeps, so that the node sees it first when it wakes up."""

from collections.abc import Callable
from typing import Any, Final

from bench.wire import PRODUCE_VERSION, Wire, framed, one_record, produce_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.schema import Message

PATIENCE_S: Final = 60
LATEST: Final = -1
FETCH_VERSION, LIST_OFFSETS_VERSION, CREATE_VERSION = 11, 7, 7
"""The first two are versions that name topics."""


class Stale:
    """A connection from before the sleep, and one request."""

    def __init__(self, address: str, request: Message, version: int, code_of: Callable[[Any], int]) -> None:
        self._wire, self._request, self._version, self._code_of = Wire(address, PATIENCE_S), request, version, code_of

    def send(self) -> None:
        self._wire.send(framed(self._request, self._version))

    def answer(self) -> ErrorCode:
        """Ends the connection."""
        with self._wire:
            return ErrorCode(self._code_of(self._wire.answer_to(self._request, self._version)))


def record(address: str, topic: str, value: bytes, acks: int) -> Stale:
    request = produce_request(topic, one_record(value), acks)
    return Stale(address, request, PRODUCE_VERSION, lambda found: found.responses[0].partition_responses[0].error_code)


def creation(controller_address: str, topic: str) -> Stale:
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[new], timeout_ms=PATIENCE_S * 1000)
    return Stale(controller_address, request, CREATE_VERSION, lambda found: found.topics[0].error_code)


def questions_and_records(address: str, topic: str, values: dict[int, bytes]) -> dict[str, Stale]:
    """Consumers' requests to the first partition's leader (records from the beginning, the log's end), and records by
    their acks; each on a connection of its own.
    """
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    latest = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    end = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[latest])])
    return {
        "fetch": Stale(address, fetch, FETCH_VERSION, lambda found: found.responses[0].partitions[0].error_code),
        "end": Stale(address, end, LIST_OFFSETS_VERSION, lambda found: found.topics[0].partitions[0].error_code),
        **{f"acks={acks}": record(address, topic, value, acks) for acks, value in values.items()},
    }
