"""ApiVersions 0-4: which APIs and versions this node serves, computed from what the handlers declare; and its features.

A version that is not served is answered with UNSUPPORTED_VERSION in the layout of version 0, with the table in it, so
that the client can ask again (KIP-511). Version 3 names the client's software; a name that is no name is refused.
Features whose lowest level is 0 are told from version 4 on (KIP-1022 fixed how older clients read them).
"""

from __future__ import annotations

import re

from penstock.node.broker import Broker
from penstock.node.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_PRIVATE_KEY = 15_000
"""Keys of our own start here and are not told to strangers."""


@handles(ApiKey.API_VERSIONS, versions=(0, 4))
def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what is served."""
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    registration = broker.image.brokers.get(broker.node_id)
    supported = {} if registration is None else registration.features
    return ApiVersionsResponse(
        api_keys=_table(broker),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.newest)
            for name, levels in supported.items()
            if levels.lowest > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=broker.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in broker.image.features.items()
        ],
    )


def unsupported_version(broker: Broker) -> ApiVersionsResponse:
    """The answer to a version that is not served; it goes out in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_table(broker))


def _table(broker: Broker) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=handler.api_key, min_version=handler.lowest, max_version=handler.newest)
        for handler in broker.handlers.values()
        if handler.api_key < FIRST_PRIVATE_KEY
    ]
