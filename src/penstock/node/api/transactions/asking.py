"""How the coordinator of a transactional id is asked, and what older clients are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from penstock.coordinator.effects import Effect
from penstock.coordinator.transaction.outcome import Outcome
from penstock.node.roles.broker import Broker
from penstock.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


def ask(
    broker: Broker, transactional_id: str, event: Callable[..., list[Effect]], *arguments: object
) -> Outcome | Awaitable[Outcome]:
    """`event` is a method of `TransactionShard`, which takes a token and the id first."""
    if not transactional_id:
        return Outcome(ErrorCode.INVALID_REQUEST)
    try:
        answer: Outcome | Awaitable[Outcome] = put(broker, transactional_id, event, *arguments)
    except KafkaError as error:
        return Outcome(error.code)
    return answer


def put(broker: Broker, transactional_id: str, event: Callable[..., list[Effect]], *arguments: object) -> Any:
    """As `ask`, whatever the event answers; KafkaError where this broker does not coordinate the id now."""
    hosted = broker.transactions.find(transactional_id)

    def happen(token: object, now_ms: int) -> list[Effect]:
        return event(hosted.machine, token, transactional_id, *arguments, now_ms)

    return hosted.ask(happen)


def when_told(outcome: Outcome | Awaitable[Outcome], response: Callable[[Outcome], T]) -> T | Awaitable[T]:
    """The response to it, at once where the outcome is there."""
    return response(outcome) if isinstance(outcome, Outcome) else _later(outcome, response)


async def _later(outcome: Awaitable[Outcome], response: Callable[[Outcome], T]) -> T:
    return response(await outcome)


def fenced_as(error: ErrorCode, api_version: int, told_since: int) -> ErrorCode:
    """Clients before that version know INVALID_PRODUCER_EPOCH alone (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and api_version < told_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
