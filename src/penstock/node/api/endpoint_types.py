"""Brokers describe brokers, and controllers controllers: what DescribeCluster says to who asks the wrong ones."""

from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


def wrong_endpoint_type(request: DescribeClusterRequest, cluster_id: str, message: str) -> DescribeClusterResponse:
    """The error for a kind of node that is not described here, or that does not exist."""
    known = request.endpoint_type in (BROKERS, CONTROLLERS)
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=message,
        endpoint_type=request.endpoint_type,
        cluster_id=cluster_id,
    )
