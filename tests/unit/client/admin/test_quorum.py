"""The metadata quorum from outside, against fake controllers that say what the test wants."""

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.unit.client.fake_broker import FakeBroker, Reply, fake_broker

from penstock.client.admin import Admin
from penstock.client.admin.quorum import QuorumEndpoint
from penstock.client.errors import UnsupportedByBrokerError
from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from penstock.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from penstock.protocol.requests.api import ApiKey, OwnApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.requests.own_apis import ResignControllerRequest, ResignControllerResponse
from penstock.protocol.schema import Message

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
DIRECTORY = UUID(int=5)


def described(leader_id: int, epoch: int, error: ErrorCode = ErrorCode.NONE) -> DescribeQuorumResponse:
    partition = DescribeQuorumResponsePartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        error_code=error,
        high_watermark=10,
        current_voters=[ReplicaState(replica_id=1, log_end_offset=10), ReplicaState(replica_id=2, log_end_offset=9)],
    )
    topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    nodes = [Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="one", port=9093)])]
    return DescribeQuorumResponse(topics=[topic], nodes=nodes)


class FakeController:
    """Node 1 of a quorum of which `active` is told; scripts answer one request each, in their order."""

    def __init__(self, active: int = 1) -> None:
        self.active = active
        self.broker: FakeBroker | None = None
        self.scripts: dict[int, list[Callable[[Message], Reply]]] = {}

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if self.scripts.get(header.api_key):
            return self.scripts[header.api_key].pop(0)(request)
        assert header.api_key == ApiKey.DESCRIBE_CLUSTER, header
        assert self.broker is not None
        host, port = self.broker.address
        rows = [DescribeClusterBroker(broker_id=1, host=host, port=port)]
        return DescribeClusterResponse(endpoint_type=2, cluster_id="fake", controller_id=self.active, brokers=rows)


async def test_the_quorum_is_what_its_leader_says() -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [lambda request: described(1, 3)]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
        info = await admin.quorum.describe()
    assert (info.leader_id, info.leader_epoch, info.high_watermark) == (1, 3, 10)
    assert info.leader is info.voters[0]
    assert info.endpoints == {1: (QuorumEndpoint("CONTROLLER", "one", 9093),)}


async def test_a_controller_that_is_not_active_is_not_believed() -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [
        lambda request: described(2, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        lambda request: described(-1, 3),
        lambda request: described(1, 4),
    ]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
        assert (await admin.quorum.describe()).leader_epoch == 4
    asked = [header.api_key for header, _ in fake.broker.requests]
    assert asked.count(ApiKey.DESCRIBE_CLUSTER) == 3, "it looks for the active one again each time"


async def test_a_resignation_names_its_epoch_and_is_over_when_the_next_one_leads() -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [lambda request, epoch=epoch: described(1, epoch) for epoch in (3, 3, 4)]  # type: ignore[misc]
    fake.scripts[OwnApiKey.RESIGN_CONTROLLER] = [lambda request: ResignControllerResponse()]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
        before = await admin.quorum.describe()
        after = await admin.quorum.resign(before, 2)
    assert after.leader_epoch == 4
    (request,) = [asked for _, asked in fake.broker.requests if isinstance(asked, ResignControllerRequest)]
    assert (request.leader_epoch, request.successor_id) == (3, 2)


@pytest.mark.parametrize(("error", "done"), [(ErrorCode.FENCED_LEADER_EPOCH, True), (ErrorCode.INVALID_REQUEST, False)])
async def test_who_has_gone_already_need_not_go(error: ErrorCode, done: bool) -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [lambda request: described(1, 3), lambda request: described(2, 4)]
    answer = ResignControllerResponse(error_code=error, error_message="so it is")
    fake.scripts[OwnApiKey.RESIGN_CONTROLLER] = [lambda request: answer]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
        before = await admin.quorum.describe()
        if done:
            assert (await admin.quorum.resign(before)).leader_id == 2
        else:
            with pytest.raises(KafkaError, match="so it is"):
                await admin.quorum.resign(before)


async def test_controllers_of_others_cannot_be_asked_to_go() -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [lambda request: described(1, 3)]
    async with fake_broker(fake) as fake.broker:
        del fake.broker.api_versions[OwnApiKey.RESIGN_CONTROLLER]
        async with Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
            info = await admin.quorum.describe()
            with pytest.raises(UnsupportedByBrokerError, match="only Penstock's can"):
                await admin.quorum.resign(info)


async def test_a_voter_is_added_to_this_cluster() -> None:
    fake = FakeController()
    refused = AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="it votes")
    fake.scripts[ApiKey.ADD_RAFT_VOTER] = [lambda request: AddRaftVoterResponse(), lambda request: refused]
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS, of_controllers=True) as admin:
        await admin.quorum.add_voter(4, DIRECTORY, [QuorumEndpoint("CONTROLLER", "four", 9093)])
        with pytest.raises(KafkaError, match="it votes"):
            await admin.quorum.add_voter(4, DIRECTORY, [])
    request = next(asked for _, asked in fake.broker.requests if isinstance(asked, AddRaftVoterRequest))
    assert (request.cluster_id, request.voter_id, request.voter_directory_id) == ("fake", 4, DIRECTORY)
    assert [(row.name, row.host, row.port) for row in request.listeners] == [("CONTROLLER", "four", 9093)]


async def test_without_a_leader_it_says_in_the_end_what_may_be_missing() -> None:
    fake = FakeController()
    fake.scripts[ApiKey.DESCRIBE_QUORUM] = [lambda request: described(-1, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1000
    settings = SETTINGS.replace(default_api_timeout_ms=10)
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], settings, of_controllers=True) as admin:
        with pytest.raises(KafkaError, match="no controller is active: does a majority of them run"):
            await admin.quorum.describe()


async def test_a_broker_is_no_controller() -> None:
    fake = FakeController()
    mismatch = DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    fake.scripts[ApiKey.DESCRIBE_CLUSTER] = [lambda request: mismatch]
    async with fake_broker(fake) as fake.broker:
        with pytest.raises(KafkaError, match="--bootstrap-server"):
            await Admin([fake.broker.address], SETTINGS, of_controllers=True).cluster.start()
