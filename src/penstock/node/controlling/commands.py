"""What asking the active controller means: one way in, one deadline, and a typed refusal where there is no answer.

The sender works out once by when it needs the answer; everything on the way, here and on the controller's node, gives
up then. A refusal is a KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT and their like say that nothing was decided, or
that the outcome is unknown. What the controller decided stands in the reply, in the layout of the API's response.
"""

import asyncio
from typing import Final, Protocol, TypeVar

from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

ReplyT = TypeVar("ReplyT", bound=Message)

CLIENTS_SHARE: Final = 0.9
"""Of `request.timeout.ms`, which is as long for clients: a later answer reaches no client."""
QUORUM_LIMIT_MS: Final = 5_000
"""How long a question about the quorum waits for a leader: an election takes less, and the client wants to know."""

SIGNS_OF_LIFE: Final = (BrokerRegistrationRequest, BrokerHeartbeatRequest)
"""What nothing may delay."""

NOT_HERE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Answers of a node that is not the active controller, at the top of the response. The second one is the quorum's."""


class ActiveController(Protocol):
    def submit(
        self,
        request: Message,
        answer: type[ReplyT],
        /,
        *,
        deadline_s: float | None = None,
        context: RequestContext | None = None,
    ) -> asyncio.Future[ReplyT]:
        """The result is the `answer`, the response message of the request's API. Fails with KafkaError.

        `deadline_s` is a time of the event loop's clock, by default `request.timeout.ms` from now. `context` says for
        whom this node asks; without it, it asks for itself.
        """


class NoController:
    """Refuses everything."""

    def submit(
        self,
        request: Message,
        answer: type[ReplyT],
        *,
        deadline_s: float | None = None,
        context: RequestContext | None = None,
    ) -> asyncio.Future[ReplyT]:
        refused: asyncio.Future[ReplyT] = asyncio.get_running_loop().create_future()
        refused.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller"))
        return refused


def deadline_of(request: Message, limit_ms: float) -> float:
    """The deadline of a request that comes in now: as it says itself, but within `limit_ms`.

    Some clients send a time-out of 0 or less for "as long as it takes".
    """
    asked_ms: int = getattr(request, "timeout_ms", 0)  # Kafka's name for it in all requests that have one
    if asked_ms > 0:
        limit_ms = min(asked_ms, limit_ms)
    return asyncio.get_running_loop().time() + limit_ms / 1000


def clients_deadline(request: Message, request_timeout_ms: int) -> float:
    limit_ms = request_timeout_ms * CLIENTS_SHARE
    if api_of_request(request).key == ApiKey.DESCRIBE_QUORUM:
        limit_ms = min(limit_ms, QUORUM_LIMIT_MS)
    return deadline_of(request, limit_ms)


def check_active(reply: Message) -> None:
    """Raises KafkaError NOT_CONTROLLER for a reply that says at its top that another node should have been asked."""
    code = getattr(reply, "error_code", ErrorCode.NONE)
    if code in NOT_HERE:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")


def version_for(command: Message) -> int:
    """The newest version that leaves nothing out of a command: some say in older ones what newer ones say otherwise."""
    versions = api_of_request(command).versions
    return next((version for version in reversed(versions) if command.is_whole_in(version)), versions[-1])
