"""What a node has made of the metadata log, in a form that nodes can be compared by."""

import asyncio

from penstock.metadata.image import ClusterImage
from penstock.protocol.requests.own_apis import DescribeMetadataResponse


async def metadata_state(node_id: int, image: ClusterImage) -> DescribeMetadataResponse:
    """The offset that was applied last, and a hash of the image then; a thread makes it, of a copy."""
    now = image.copy()
    checksum = await asyncio.get_running_loop().run_in_executor(None, now.checksum)
    return DescribeMetadataResponse(node_id=node_id, offset=now.offset, epoch=now.controller_epoch, checksum=checksum)
