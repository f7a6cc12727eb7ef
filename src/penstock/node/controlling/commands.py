"""Commands to the controller on behalf of a client that does not wait for ever, and what their answers say."""

import asyncio
from functools import cache
from typing import Any, Protocol

from penstock.controller.refusals import refusal
from penstock.node.serving.handler import RequestContext
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.framing import api_of_request
from penstock.protocol.schema import Message


class ActiveController(Protocol):
    """Whoever answers commands to the active controller."""

    def submit(self, command: Message) -> asyncio.Future[Any]:
        """Asks it; the future never fails."""


class Commanding(Protocol):
    """A broker, which asks the active controller, or a controller."""

    @property
    def controller(self) -> Any:
        """Where commands are submitted."""


async def carry_out(node: Commanding, command: Message, timeout_ms: int, context: RequestContext | None = None) -> Any:
    """The controller's reply, or one of REQUEST_TIMED_OUT if it is not committed in time; it may still be later.

    `context` says who asked, for a controller on another node. A time-out of 0 or less, which some clients send for "as
    long as it takes", is none.
    """
    seconds = timeout_ms / 1000 if timeout_ms > 0 else None
    submitted = node.controller.submit(command) if context is None else node.controller.submit(command, context)
    try:
        return await asyncio.wait_for(submitted, seconds)
    except TimeoutError:
        return refusal(command, KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not committed within {timeout_ms} ms"))


def version_for(command: Message) -> int:
    """The newest version that leaves nothing out of a command: some say in older ones what newer ones say otherwise."""
    versions = api_of_request(command).versions
    for version in reversed(versions):
        if decode(type(command), version, encode(command, version))[0] == command:
            return version
    return versions[-1]


def has_error(response: Message, code: ErrorCode) -> bool:
    """Whether that error stands anywhere in a response: at its top, or beside any of its items."""
    has_code, nested = _places_of_errors(type(response))
    if has_code and getattr(response, "error_code") == code:  # noqa: B009 - not every message has one
        return True
    for name, is_array in nested:
        value: Any = getattr(response, name)
        items = (value or ()) if is_array else (value,)
        if any(item is not None and has_error(item, code) for item in items):
            return True
    return False


@cache
def _places_of_errors(message: type[Message]) -> tuple[bool, tuple[tuple[str, bool], ...]]:
    """Whether such a message has an error code of its own, and in which fields there are others; bool: is it a list?"""
    nested = []
    for name, field in message.__fields__.items():
        if isinstance(field.kind, type) and any(_places_of_errors(field.kind)):
            nested.append((name, field.is_array))
    return "error_code" in message.__fields__, tuple(nested)
