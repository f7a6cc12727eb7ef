"""DescribeMetadata 0, an API of our own: how far this node has applied the metadata log, and a hash of it."""

from __future__ import annotations

from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import DescribeMetadataRequest, DescribeMetadataResponse


@handles(OwnApiKey.DESCRIBE_METADATA, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),), pipelined=True)
async def describe_metadata(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeMetadataRequest
) -> DescribeMetadataResponse:
    """The offset that was applied last, and a hash of the image then; a thread makes it, of a copy, and one for all who
    ask meanwhile.
    """

    async def look() -> tuple[int, DescribeMetadataResponse]:
        now = node.image.copy()
        checksum = await node.slices.work(now.checksum)
        return now.offset, DescribeMetadataResponse(
            node_id=node.node_id, offset=now.offset, epoch=now.controller_epoch, checksum=checksum
        )

    told: DescribeMetadataResponse = await node.described_metadata.get(node.image.offset, look)
    return told
