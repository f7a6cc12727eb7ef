"""A record that reaches a leader while it sleeps, so that it is the first thing that it sees when it wakes up."""

import socket
import struct
from typing import Final

from bench.round_trip import PRODUCE_VERSION, produce_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response

PATIENCE_S: Final = 60


class StaleRecord:
    """A connection to the leader of the topic's first partition, made while it is awake, and one record."""

    def __init__(self, address: str, topic: str, value: bytes, acks: int) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self.value = value
        self.acks = acks
        self._request = produce_request(topic, value, acks)
        self._connection = socket.create_connection((host, int(port)), PATIENCE_S)

    def send(self) -> None:
        """Put the request on its way."""
        self._connection.sendall(self._request)

    def answer(self) -> ErrorCode:
        """What became of it; this ends the connection."""
        with self._connection, self._connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, stream.read(size))
        assert isinstance(response, ProduceResponse)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)
