"""PushTelemetry 0: a client's metrics, as OpenTelemetry writes them (KIP-714); where metrics are wanted.

A thread unpacks them, to `telemetry.max.bytes` at most. What cannot be read is INVALID_RECORD, and the client pushes no
more; what is too large may be less the next time.
"""

from functools import partial
from uuid import UUID

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import CloseConnection, RequestContext
from penstock.node.telemetry.clients import Pushed
from penstock.node.telemetry.receiver import TelemetryReceiver
from penstock.node.telemetry.subscriptions import Attributes, Wanted
from penstock.protocol.compression import DecompressionLimitError
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

RESERVED = (UUID(int=0), UUID(int=1))
"""Of Kafka's own use."""


async def push_telemetry(
    broker: Broker, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    receiver = broker.telemetry
    if receiver is None:
        raise CloseConnection("this broker takes no metrics of clients: penstock.metrics.listener is not set")
    if request.client_instance_id in RESERVED:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    receiver.look_at_subscriptions()
    attributes = receiver.attributes(context.session, context.client_id, request.client_instance_id)
    pushed = Pushed(request.subscription_id, request.compression_type, len(request.metrics), request.terminating)
    try:
        wanted = receiver.clients.push(attributes, pushed, receiver.max_bytes, broker.now_ms())
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    code = await _take(broker, receiver, attributes, wanted, request) if request.metrics else ErrorCode.NONE
    if code:
        receiver.unreadable += 1
        receiver.clients.was_refused(request.client_instance_id, code)
    return PushTelemetryResponse(error_code=code)


async def _take(
    broker: Broker, receiver: TelemetryReceiver, attributes: Attributes, wanted: Wanted, request: PushTelemetryRequest
) -> ErrorCode:
    unpack = partial(receiver.unpacked, request.compression_type, bytes(request.metrics))
    try:
        points = await broker.slices.work(unpack)
    except DecompressionLimitError:
        return ErrorCode.TELEMETRY_TOO_LARGE
    except DecodeError:
        return ErrorCode.INVALID_RECORD
    receiver.pushes += 1
    receiver.received.take(attributes, points, wanted.interval_ms, broker.now_ms())
    return ErrorCode.NONE
