"""ListTransactions 0-2: the transactional ids that this node coordinates.

By state and producer, from version 1 on by how long the transaction has been open (KIP-994), from version 2 on by a
pattern of ids (KIP-1152), which a thread looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from penstock.coordinator.transaction.transaction import NAMED, Transaction
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import times_named
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.expressions.matcher import Matcher
from penstock.protocol.expressions.parse import ExpressionError
from penstock.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

IDS_A_STEP: Final = 500
ANY_DURATION: Final = -1


def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> Steps[ListTransactionsResponse]:
    unknown = yield from _unknown(request.state_filters)
    try:
        serving = broker.transactions.all_serving()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    passes = yield from _filter(request, broker.transactions.now_ms())
    states: list[TransactionState] = []
    pace = Pace(IDS_A_STEP)
    for hosted in serving:
        for transactional_id, known in hosted.machine.transactions():
            if pace.is_due():
                yield None
            if passes(known):
                states.append(
                    TransactionState(
                        transactional_id=transactional_id,
                        producer_id=known.producer_id,
                        transaction_state=known.state.shown,
                    )
                )
    if request.transactional_id_pattern:
        try:
            states = yield partial(_fitting, states, request.transactional_id_pattern)
        except ExpressionError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)


def _unknown(names: Iterable[str]) -> Steps[list[str]]:
    found, pace = list[str](), Pace(IDS_A_STEP)
    for name in names:
        if name not in NAMED:
            found.append(name)
        if pace.is_due():
            yield None
    return found


def _fitting(states: list[TransactionState], pattern: str) -> list[TransactionState]:
    """Those with an id that fits as a whole. Raises ExpressionError."""
    matches = Matcher(pattern).matches
    return [state for state in states if matches(state.transactional_id)]


def _filter(request: ListTransactionsRequest, now_ms: int) -> Steps[Callable[[Transaction], bool]]:
    producers = yield from times_named(request.producer_id_filters)
    states = yield from times_named(request.state_filters)
    since_ms = None if request.duration_filter <= ANY_DURATION else now_ms - request.duration_filter

    def passes(known: Transaction) -> bool:
        return (
            (not producers or known.producer_id in producers)
            and (not states or known.state.shown in states)
            and (since_ms is None or known.start_ms < since_ms)
        )

    return passes
