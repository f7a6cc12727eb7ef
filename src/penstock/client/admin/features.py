"""The features of a cluster from outside: which levels its nodes can run at, which one holds, and how to change it."""

from collections.abc import Mapping
from enum import IntEnum

from penstock.client.cluster import ClusterClient
from penstock.client.connection import SOFTWARE_VERSION
from penstock.client.errors import raise_for
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.protocol.requests.own_apis import OWN_SOFTWARE
from penstock.protocol.value import Value


class UpgradeType(IntEnum):
    """Which way a level may go, by Kafka's numbers; only the last may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureDescription(Value):
    """One feature: the levels that the asked node can run at, and the one that holds (0: none)."""

    name: str
    lowest: int
    newest: int
    level: int


class FeatureAdmin:
    """Refusals are KafkaErrors with the controller's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, node_id: int | None = None) -> tuple[list[FeatureDescription], int]:
        """The features by name, and the offset of the metadata log as of which that holds (-1: not known).

        A node is asked which levels it can run at; any one if none is named.
        """
        request = ApiVersionsRequest(client_software_name=OWN_SOFTWARE, client_software_version=SOFTWARE_VERSION)

        async def attempt() -> ApiVersionsResponse:
            if node_id is None:
                return await self._cluster.to_any(request, ApiVersionsResponse)
            return await self._cluster.to_node(node_id, request, ApiVersionsResponse)

        answer = await self._cluster.retrying(attempt)
        raise_for(answer.error_code, "the features of the cluster")
        levels = {row.name: row.max_version_level for row in answer.finalized_features}
        features = [
            FeatureDescription(row.name, row.min_version, row.max_version, levels.get(row.name, 0))
            for row in sorted(answer.supported_features, key=lambda row: row.name)
        ]
        return features, answer.finalized_features_epoch

    async def update(self, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool = False) -> None:
        """Let these levels hold, all or none of them (KIP-584)."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._cluster.settings.request_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    upgrade_type=kind,
                    allow_downgrade=kind is not UpgradeType.UPGRADE,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )

        async def attempt() -> None:
            response = await self._cluster.to_controller(request, UpdateFeaturesResponse)
            raise_for(response.error_code, response.error_message)
            for row in response.results:
                raise_for(row.error_code, row.error_message, f"feature {row.feature}")

        await self._cluster.retrying(attempt)
