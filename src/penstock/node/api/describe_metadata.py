"""DescribeMetadata 0, an API of our own: how far this node has applied the metadata log, and a hash of it."""

import asyncio

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
    """The offset that was applied last, and a hash of the image then; a thread makes it, of a copy."""
    now = node.image.copy()
    checksum = await asyncio.get_running_loop().run_in_executor(None, now.checksum)
    return DescribeMetadataResponse(
        node_id=node.node_id, offset=now.offset, epoch=now.controller_epoch, checksum=checksum
    )
