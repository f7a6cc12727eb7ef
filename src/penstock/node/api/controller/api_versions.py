"""ApiVersions 0-5: which APIs and versions this controller serves, computed from what the handlers declare.

Its features are those of the software, not of a registration: a new voter is asked here for its levels of
`kraft.version` (KIP-853). The rules are in `penstock.node.serving.versions`.
"""

from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.versions import finalized_levels, told_versions
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.API_VERSIONS, versions=(0, 5), rule=NOTHING)
def api_versions(node: ControllerNode, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    finalized = finalized_levels(node.image, node.quorum.quorum.kraft_version)
    return told_versions(node.handlers, context, request, node.image, supported=SUPPORTED_FEATURES, finalized=finalized)
