"""Each listener has the table of its role, on real sockets."""

from types import SimpleNamespace
from typing import cast

from tests.unit.node.served_node import RawClient, serving, serving_node

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.node.roles.controller_node import Commands, ControllerNode, QuorumMember
from penstock.node.serving.handler import CONTROLLER_HANDLERS, load_handlers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import FIRST_OWN_KEY
from penstock.raft.voters import Quorum


def controller(kraft_version: int = 1) -> ControllerNode:
    image = ClusterImage("cluster")
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=25))
    return ControllerNode(
        config=BrokerConfig.embedded(),
        node_id=1,
        cluster_id="cluster",
        image=image,
        controller=cast("Commands", None),
        quorum=cast("QuorumMember", SimpleNamespace(quorum=Quorum(kraft_version=kraft_version))),
        handlers=load_handlers(CONTROLLER_HANDLERS),
    )


async def told(client: RawClient, version: int = 4) -> ApiVersionsResponse:
    client.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), version)
    _, response = await client.receive(ApiKey.API_VERSIONS, version)
    assert isinstance(response, ApiVersionsResponse)
    return response


async def test_a_controller_tells_its_own_table_and_features() -> None:
    node = controller()
    async with serving_node(node, "CONTROLLER") as server:
        response = await told(await server.connect())
    assert {api.api_key: (api.min_version, api.max_version) for api in response.api_keys} == {
        key: (handler.lowest, handler.newest) for key, handler in node.handlers.items() if key < FIRST_OWN_KEY
    }
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    elr = "eligible.leader.replicas.version"
    assert supported == {
        "metadata.version": (7, 33),
        "kraft.version": (0, 1),
        elr: (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "penstock.delay.version": (0, 1),
    }
    assert {f.name: f.max_version_level for f in response.finalized_features} == {
        "metadata.version": 25,
        "kraft.version": 1,
    }


async def test_level_0_of_kraft_version_is_not_told_as_in_kafka() -> None:
    async with serving_node(controller(kraft_version=0), "CONTROLLER") as server:
        response = await told(await server.connect())
    assert [feature.name for feature in response.finalized_features] == ["metadata.version"]


async def test_the_lowest_level_0_is_not_told_to_older_clients() -> None:
    async with serving_node(controller(), "CONTROLLER") as server:
        response = await told(await server.connect(), 3)
    assert [feature.name for feature in response.supported_features] == ["metadata.version"]


async def test_what_only_brokers_serve_closes_the_connection() -> None:
    async with serving_node(controller(), "CONTROLLER") as server, serving() as broker:
        client = await server.connect()
        client.send(MetadataRequest(), 12)
        assert await client.closed()
        assert await (await server.connect()).lives()
        assert len((await told(await broker.connect())).api_keys) == 1


async def test_a_controller_takes_who_looks_for_another_node() -> None:
    """As Kafka's do; but half of a name is none."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1", node_id=77)
    codes = []
    async with serving_node(controller(), "CONTROLLER") as server:
        client = await server.connect()
        for cluster_id in ("another", None):
            client.send(request.replace(cluster_id=cluster_id), 5)
            _, response = await client.receive(ApiKey.API_VERSIONS, 5)
            assert isinstance(response, ApiVersionsResponse)
            codes.append(response.error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
