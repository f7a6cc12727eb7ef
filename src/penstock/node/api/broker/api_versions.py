"""ApiVersions 0-5: which APIs and versions this node serves, computed from what the handlers declare; and its features.

The rules are in `penstock.node.serving.versions`.
"""

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.versions import finalized_levels, told_versions
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.API_VERSIONS, versions=(0, 5), rule=NOTHING)
def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if broker.telemetry is not None and request.client_software_name:
        software = request.client_software_name, request.client_software_version
        broker.telemetry.named_software(context.session, *software)
    registration = broker.image.brokers.get(broker.node_id)
    supported = {} if registration is None else registration.features
    finalized = finalized_levels(broker.image, broker.quorum.quorum.kraft_version)
    return told_versions(
        broker.handlers,
        context,
        request,
        broker.image,
        supported=supported,
        finalized=finalized,
        broker_id=broker.node_id,
    )
