"""What ApiVersions tells, whoever asks: the APIs of a table of handlers, and features with their levels.

A version that is not served is answered with UNSUPPORTED_VERSION in the layout of version 0, with the table in it, so
that the client can ask again (KIP-511). Version 3 names the client's software; a name that is no name is refused, and
APIs of our own are told only to a client that is ours; so are those that Kafka has for controllers alone.
Of Produce lower versions are told than are served; a request in one is refused like any version that is not served.
Features whose lowest level is 0 are told from version 4 on (KIP-1022 fixed how older clients read them).
From version 5 on a client may name the node that it looks for, with its cluster: a broker that is another one says that
what the client knows is old, and the client begins anew with its bootstrap servers (KIP-1242).
"""

import re
from collections.abc import Mapping

from penstock.metadata.brokers import Feature
from penstock.metadata.features import KRAFT_VERSION
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.serving.handler import Handler, RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import FIRST_OWN_KEY, OWN_SOFTWARE

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
TOLD_FROM: dict[int, int] = {ApiKey.PRODUCE: 0}
"""Versions that are told and not served: librdkafka before 2.11.1 takes a broker that does not tell Produce 0 for one
that cannot gzip, snappy and lz4, and Kafka does the same for its sake (KAFKA-18659)."""


def told_versions(
    handlers: Mapping[int, Handler],
    context: RequestContext,
    request: ApiVersionsRequest,
    image: ClusterImage,
    *,
    supported: Mapping[str, Feature],
    finalized: Mapping[str, int],
    broker_id: int | None = None,
) -> ApiVersionsResponse:
    """What is served, what is supported, and which levels hold as of the image's offset.

    Only a broker refuses who looks for another node: Kafka's controllers do not look at that.
    """
    if not _makes_sense(request, context.api_version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    looks_for = (request.cluster_id, request.node_id)
    if None not in (request.cluster_id, broker_id) and looks_for != (image.cluster_id, broker_id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    return ApiVersionsResponse(
        api_keys=_table(handlers, finalized, is_ours=request.client_software_name == OWN_SOFTWARE),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.newest)
            for name, levels in supported.items()
            if levels.lowest > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ],
    )


def _makes_sense(request: ApiVersionsRequest, version: int) -> bool:
    """Names of software are names, and a cluster and its node are said together; older versions have neither."""
    names = (request.client_software_name, request.client_software_version) if version >= 3 else ()
    is_whole = (request.cluster_id is None) == (request.node_id == NOBODY)
    return is_whole and all(map(_SOFTWARE.fullmatch, names))


def finalized_levels(image: ClusterImage, kraft_version: int) -> dict[str, int]:
    """The levels that hold; that of `kraft.version` is in no metadata record, and 0 is not told, as in Kafka."""
    return image.features | ({KRAFT_VERSION: kraft_version} if kraft_version else {})


def unsupported_version(handlers: Mapping[int, Handler]) -> ApiVersionsResponse:
    """The answer to a version that is not served; it goes out in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_table(handlers, {}, is_ours=False))


def _table(handlers: Mapping[int, Handler], levels: Mapping[str, int], *, is_ours: bool) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=handler.api_key,
            min_version=TOLD_FROM.get(handler.api_key, handler.lowest),
            max_version=handler.newest,
        )
        for handler in handlers.values()
        if (is_ours or not (handler.for_nodes or handler.api_key >= FIRST_OWN_KEY))
        and (handler.feature is None or levels.get(handler.feature))
    ]
