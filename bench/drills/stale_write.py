"""A write that reaches a controller while it sleeps, so that it is the first thing that it sees when it wakes up."""

import socket
import struct

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request
from penstock.testing.cluster_node import ClusterNode

REFUSALS = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""What a controller that leads no longer may say: it was never decided, or nobody knows."""

PATIENCE_S = 60
VERSION, CORRELATION_ID = 7, 1


class StaleWrite:
    """A connection to the controller's own listener, made while it is awake, and one topic creation."""

    def __init__(self, node: ClusterNode, topic: str) -> None:
        """Connect."""
        assert node.controller_address is not None
        host, _, port = node.controller_address.rpartition(":")
        self.topic = topic
        self._connection = socket.create_connection((host, int(port)), PATIENCE_S)

    def send(self) -> None:
        """Put the request on its way."""
        topic = CreatableTopic(name=self.topic, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=PATIENCE_S * 1000)
        self._connection.sendall(encode_request(request, VERSION, CORRELATION_ID, "drill"))

    def answer(self) -> ErrorCode:
        """What became of it; this ends the connection."""
        with self._connection, self._connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            _, response = decode_response(ApiKey.CREATE_TOPICS, VERSION, stream.read(size))
        assert isinstance(response, CreateTopicsResponse)
        return ErrorCode(response.topics[0].error_code)
