"""The controller of this process, as it answers its own node and what other brokers hand on to it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.controller.decisions import is_command
from penstock.node.api.commands import RULES, decided
from penstock.node.controlling.commands import check_active, version_for
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import ALLOW_ALL
from penstock.node.serving.handler import CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.serving.parts import asked
from penstock.node.serving.rules import Rule, judged
from penstock.node.serving.session import Session
from penstock.node.serving.slices import now_or_later
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

ITSELF = Session("127.0.0.1", -1, "", -1)
"""The session of a request that this node makes for itself."""


async def answered_here(
    node: ControllerNode, request: Message, deadline_s: float, context: RequestContext | None = None
) -> Message:
    """The reply of this node's controller, to a command, or as a handler of its listeners gives it.

    Without a context the node asks for itself. Raises KafkaError: NOT_CONTROLLER if this controller is not active, and
    what ControllerDriver.submit raises.
    """
    key = api_of_request(request).key
    if is_command(request):
        return await _judged(RULES[key], partial(decided, node, context, deadline_s=deadline_s), node, context, request)
    if not node.handlers:  # a node without listeners for controllers needs them only here
        node.handlers = load_handlers(CONTROLLER_HANDLERS)
    asked_by = RequestContext(key, version_for(request), 0, None, ITSELF) if context is None else context
    handler = node.handlers[key]
    reply = await _judged(handler.rule, partial(asked, handler, node, asked_by), node, context, request)
    check_active(reply)
    return reply


async def _judged(
    rule: Rule, answer: Callable[[Message], Any], node: ControllerNode, context: RequestContext | None, request: Message
) -> Message:
    """The reply, as far as the client has the rights; the node itself may do everything."""
    if context is None or context.authorizer is ALLOW_ALL:
        reply = answer(request)
    else:
        reply = judged(rule, answer, node, context, request)
    found: Message = await now_or_later(reply)
    return found
