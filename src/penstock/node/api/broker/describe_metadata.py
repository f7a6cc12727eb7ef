"""DescribeMetadata 0, an API of our own: how far this broker has applied the metadata log, and a hash of it."""

from __future__ import annotations

from penstock.node.quorum.metadata_state import metadata_state
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import DescribeMetadataRequest, DescribeMetadataResponse


@handles(OwnApiKey.DESCRIBE_METADATA, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),))
async def describe_metadata(
    broker: Broker, context: RequestContext, request: DescribeMetadataRequest
) -> DescribeMetadataResponse:
    return await metadata_state(broker.node_id, broker.image)
