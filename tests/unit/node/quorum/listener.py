"""The controller listener of a quorum, as small as it can be: frames in, the driver's answers out, on a real socket."""

import asyncio

from penstock.node.quorum.driver import QuorumDriver
from penstock.protocol.api import ApiKey, api_of
from penstock.protocol.codec import decode
from penstock.protocol.errors import KafkaError
from penstock.protocol.framing import encode_response, parse_request_header
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest
from penstock.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.fetch import NodeEndpoint as FetchedEndpoint
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from penstock.protocol.messages.vote import VoteRequest
from penstock.protocol.schema import Message
from penstock.raft import kafka_answers, kafka_requests
from penstock.raft import requests as ask
from penstock.raft.voters import ReplicaKey

SERVED = (
    ApiKey.API_VERSIONS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.ADD_RAFT_VOTER,
)


class Listener:
    """Listens for one driver; requests of one connection are answered in their order."""

    def __init__(self, cluster_id: str, port: int = 0) -> None:
        self.cluster_id = cluster_id
        self.port = port
        self.driver: QuorumDriver | None = None
        self.is_silent = False
        self.connections = 0
        self.asked: list[str] = []
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = None
        self.connections += 1
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(length)
                header, position = parse_request_header(frame)
                request, _ = decode(api_of(header.api_key).request_class, header.api_version, frame, position)
                self.asked.append(type(request).__name__.removesuffix("Request"))
                if self.is_silent:
                    continue
                answer = await self._answer(request)
                writer.write(encode_response(answer, header.api_key, header.api_version, header.correlation_id))
        except (asyncio.IncompleteReadError, ConnectionError, KafkaError):
            pass
        finally:
            self._writers.pop(writer, None)
            writer.close()

    async def _answer(self, message: Message) -> Message:
        if isinstance(message, ApiVersionsRequest):
            return versions()
        assert self.driver is not None
        me = self.driver.local_key
        answer = await self.driver.request(self._read(message, me))
        match answer:
            case ask.VoteAnswer():
                return kafka_answers.write_vote_answer(answer)
            case ask.BeginEpochAnswer():
                return kafka_answers.write_begin_epoch_answer(answer)
            case ask.EndEpochAnswer():
                return kafka_answers.write_end_epoch_answer(answer)
            case ask.FetchAnswer():
                response = kafka_answers.write_fetch_answer(answer)
                found = self.driver.endpoint_of(answer.leader_id)
                if found is not None and answer.leader_id is not None:
                    endpoint = FetchedEndpoint(node_id=answer.leader_id, host=found.host, port=found.port)
                    response.node_endpoints = [endpoint]
                return response
            case ask.FetchSnapshotAnswer():
                return kafka_answers.write_fetch_snapshot_answer(answer)
            case ask.UpdateVoterAnswer():
                return kafka_answers.write_update_voter_answer(answer)
            case ask.VoterChangeAnswer():
                return kafka_answers.write_add_voter_answer(answer)

    def _read(self, message: Message, me: ReplicaKey) -> ask.PeerRequest | ask.AddVoter:
        match message:
            case VoteRequest():
                return kafka_requests.read_vote(message, self.cluster_id, me)
            case BeginQuorumEpochRequest():
                return kafka_requests.read_begin_epoch(message, self.cluster_id, me)
            case EndQuorumEpochRequest():
                return kafka_requests.read_end_epoch(message, self.cluster_id)
            case FetchRequest():
                return kafka_requests.read_fetch(message, self.cluster_id)
            case FetchSnapshotRequest():
                return kafka_requests.read_fetch_snapshot(message, self.cluster_id)
            case UpdateRaftVoterRequest():
                return kafka_requests.read_update_voter(message, self.cluster_id)
            case AddRaftVoterRequest():
                return kafka_requests.read_add_voter(message, self.cluster_id)
            case _:
                raise AssertionError(message)


def versions() -> ApiVersionsResponse:
    keys = [
        ApiVersion(api_key=key, min_version=api_of(key).versions[0], max_version=api_of(key).versions[-1])
        for key in SERVED
    ]
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(api_keys=keys, supported_features=[feature])
