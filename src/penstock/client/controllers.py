"""Connections to the controllers of one cluster instead of its brokers: what `--bootstrap-controller` is about.

All that `ClusterClient` does holds here as well, but its nodes are the controllers, as DescribeCluster tells them
(KIP-919), so `to_controller` goes to the active one itself.
"""

from collections.abc import Collection
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.client.metadata import BrokerMetadata, ClusterMetadata
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

CONTROLLERS_ENDPOINT: Final = 2


class ControllerClient(ClusterClient):
    of_controllers = True

    async def refresh(self, topics: Collection[str] | None = None, *, create: bool = False) -> ClusterMetadata:
        """Ask which controllers there are and which one is active; controllers tell of no topics."""
        assert not topics, "controllers tell of no topics"
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS_ENDPOINT)
        response = await (await self._connection_for_metadata()).request(request, DescribeClusterResponse)
        if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
            raise KafkaError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is the listener of a broker: give it as --bootstrap-server"
            )
        raise_for(response.error_code, response.error_message)
        self._asking_since_s = None
        self.metadata = ClusterMetadata(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                row.broker_id: BrokerMetadata(row.broker_id, Address(row.host, row.port), row.rack)
                for row in response.brokers
            },
        )
        return self.metadata
