"""GetTelemetrySubscriptions 0: which metrics a client is to push, and how often (KIP-714); where metrics are wanted.

Deltas are not asked for, as Kafka does: what reads the page of figures wants totals.
"""

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import CloseConnection, RequestContext
from penstock.node.telemetry.receiver import ACCEPTED
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from penstock.protocol.uuids import ZERO_UUID, random_uuid


def get_telemetry_subscriptions(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    receiver = broker.telemetry
    if receiver is None:
        raise CloseConnection("this broker takes no metrics of clients: penstock.metrics.listener is not set")
    receiver.look_at_subscriptions()
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = random_uuid(broker.random)
    attributes = receiver.attributes(context.session, context.client_id, instance)
    try:
        wanted = receiver.clients.ask(attributes, broker.now_ms())
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=wanted.number,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=receiver.max_bytes,
        delta_temporality=False,
        requested_metrics=list(wanted.metrics),
    )
