"""Commands to the controller on behalf of a client that does not wait for ever."""

import asyncio
from typing import Any, Protocol

from penstock.controller.refusals import refusal
from penstock.node.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
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
