"""UpdateFeatures 0-2: the levels of features are raised or lowered (KIP-584). The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(ApiKey.UPDATE_FEATURES, versions=(0, 2), needs=(Need.ALTER_CLUSTER,))
def update_features(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> Awaitable[UpdateFeaturesResponse]:
    """Answer when the levels are committed."""
    return carry_out(broker, request, request.timeout_ms, context)
