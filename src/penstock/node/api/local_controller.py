"""The controller of this process, as it answers its own node and what other brokers hand on to it."""

from typing import Any

from penstock.controller.decisions import is_command
from penstock.node.controlling.commands import check_active, version_for
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.serving.session import Session
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

ITSELF = Session("127.0.0.1", -1, "", -1)
"""Who asks if it is no client but this node."""


async def answered_here(
    node: ControllerNode, request: Message, deadline_s: float, context: RequestContext | None = None
) -> Message:
    """The reply of this node's controller, to a command, or as a handler of its listeners gives it.

    Without a context the node asks for itself. Raises KafkaError: NOT_CONTROLLER if this controller is not active, and
    what ControllerDriver.submit raises.
    """
    if is_command(request):
        reply: Message = await node.controller.submit(request, deadline_s)
        return reply
    if not node.handlers:  # a node without listeners for controllers needs them only here
        node.handlers = load_handlers(CONTROLLER_HANDLERS)
    key = api_of_request(request).key
    if context is None:
        context = RequestContext(key, version_for(request), 0, None, ITSELF)
    answer: Any = node.handlers[key].function(node, context, request)
    reply = await answer if hasattr(answer, "__await__") else answer
    check_active(reply)
    return reply
