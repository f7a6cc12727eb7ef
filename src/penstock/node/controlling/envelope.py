"""Clients' requests that a broker hands on, mostly to the active controller, in an Envelope with the client (KIP-590).

`wrap` and `unwrap` are the half of the sending broker, `opened` and `closed` that of the receiver. An envelope holds a
whole request, header and all, and its answer holds the whole response, in the version of the client or the broker.
What is large is taken apart, and put together, by a thread.
"""

import ipaddress
from collections.abc import Mapping, Set
from functools import partial
from typing import Protocol

from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.parts import is_long
from penstock.node.serving.session import NODE, Principal
from penstock.node.serving.slices import Slices
from penstock.protocol.codec import LARGE_BYTES, decode, encode
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.default_principal_data import DefaultPrincipalData
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.requests.api import api_of
from penstock.protocol.requests.framing import (
    api_of_request,
    decode_response,
    encode_request,
    encode_response,
    frame_response,
    parse_request_header,
)
from penstock.protocol.schema import Message

NOWHERE = b"\x00\x00\x00\x00"
"""The address of a client that has none: the broker itself asks, or the network is no real one."""
NO_LISTENER = ""
"""That of whoever asked: the envelope came by one of nodes, which says nothing of who is in it."""
_LENGTH_BYTES = 4
_PRINCIPAL_VERSION = b"\x00\x00"


class Serving(Protocol):
    @property
    def handlers(self) -> Mapping[int, Handler]: ...
    @property
    def slices(self) -> Slices: ...


def wrap(request: Message, version: int, context: RequestContext | None = None) -> EnvelopeRequest:
    """`context` says which client asked; without it the broker itself did."""
    correlation_id, client_id, principal, host = 0, None, NODE, ""
    if context is not None:
        correlation_id, client_id = context.correlation_id, context.client_id
        principal, host = context.session.principal, context.session.client_host
    return EnvelopeRequest(
        request_data=encode_request(request, version, correlation_id, client_id)[_LENGTH_BYTES:],
        request_principal=_PRINCIPAL_VERSION
        + encode(
            DefaultPrincipalData(type=principal.kind, name=principal.name, token_authenticated=principal.by_token),
            0,
        ),
        client_host_address=_packed(host),
    )


def is_large(envelope: EnvelopeRequest | EnvelopeResponse) -> bool:
    """Whether a thread should open it."""
    data = envelope.request_data if isinstance(envelope, EnvelopeRequest) else envelope.response_data
    return len(data or b"") > LARGE_BYTES


def unwrap(response: EnvelopeResponse, request: Message, version: int) -> Message:
    """Raises KafkaError if the envelope was refused, NOT_CONTROLLER among others, and DecodeError."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise KafkaError(code, f"what was handed on is refused: {code.name}")
    if response.response_data is None:
        raise DecodeError("an envelope with nothing in it")
    _, message = decode_response(api_of_request(request).key, version, response.response_data)
    return message


def opened(
    envelope: EnvelopeRequest, handlers: Mapping[int, Handler], handed_on: Set[int], outer: RequestContext
) -> tuple[RequestContext, Message]:
    """The request, for one of `handlers`, and its client. Raises KafkaError for what cannot be handed on."""
    data = memoryview(envelope.request_data)
    try:
        header, position = parse_request_header(data)
        handler = handlers.get(header.api_key)
        if handler is None or header.api_key not in handed_on:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"API key {header.api_key} is not handed on")
        if not handler.lowest <= header.api_version <= handler.newest:
            message = f"version {header.api_version} of API key {header.api_key} is not served"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        request, _ = decode(api_of(header.api_key).request_class, header.api_version, data, position)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request in the envelope: {error}") from error
    context = RequestContext(
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
        outer.session.replace(
            client_host=_host(envelope.client_host_address),
            listener=NO_LISTENER,
            principal=_principal(envelope.request_principal, outer),
        ),
        outer.authorizer,
    )
    return context, request


async def opened_in_time(
    envelope: EnvelopeRequest, node: Serving, handed_on: Set[int], outer: RequestContext
) -> tuple[RequestContext, Message]:
    """As `opened`, in a thread if it is large."""
    opening = partial(opened, envelope, node.handlers, handed_on, outer)
    return await node.slices.work(opening) if is_large(envelope) else opening()


async def closed_in_time(reply: Message | bytes, node: Serving, context: RequestContext) -> EnvelopeResponse:
    closing = partial(closed, reply, context)
    return await node.slices.work(closing) if is_long(reply) else closing()


def closed(reply: Message | bytes, context: RequestContext) -> EnvelopeResponse:
    header = context.api_key, context.api_version, context.correlation_id
    frame = frame_response(reply, *header) if isinstance(reply, bytes) else encode_response(reply, *header)
    return EnvelopeResponse(response_data=frame[_LENGTH_BYTES:])


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return NOWHERE


def _host(packed: bytes) -> str:
    try:
        return str(ipaddress.ip_address(packed))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a client's address of {len(packed)} bytes") from error


def _principal(data: bytes | None, outer: RequestContext) -> Principal:
    """The client's; where the envelope does not say, the node that hands it on asks for itself."""
    if data is None:
        return outer.session.principal
    try:
        if data[:2] != _PRINCIPAL_VERSION:
            raise DecodeError(f"version {data[:2].hex()} of a principal")
        principal, _ = decode(DefaultPrincipalData, 0, data, 2)
    except DecodeError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return Principal(principal.type, principal.name, principal.token_authenticated)
