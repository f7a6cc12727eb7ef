"""Fetch 4-18: read record batches as they lie on disk; with sessions (KIP-227) and, from version 13, topics by id.

A request that finds less than `min_bytes` waits up to `max_wait_ms`; it is woken by the partitions it asked for and by
one timer, and costs nothing in between. An error or a divergence is told at once.

Not done: preferred read replicas (always -1), aborted transactions (there are none).
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.node.broker import Broker
from penstock.node.partitions.fetch_sessions import FetchPlan
from penstock.node.partitions.fetching import FetchReader, Reading
from penstock.node.partitions.partition import Partition
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.fetch import TOPIC_IDS_FROM, FetchFrame, encode_fetch_response, parse_fetch


@handles(ApiKey.FETCH, versions=(4, 18), needs=(Need.READ_TOPIC, Need.CLUSTER_ACTION), raw=True)
def fetch(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> list[Any] | asyncio.Future[list[Any]]:
    """Read each partition from its offset on."""
    version = context.api_version
    request = parse_fetch(frame, position, version)
    uses_topic_ids = version >= TOPIC_IDS_FROM
    try:
        plan = broker.fetch_sessions.plan(request, uses_topic_ids=uses_topic_ids, now_ms=broker.now_ms())
    except KafkaError as error:
        return encode_fetch_response([], version, context.correlation_id, error_code=error.code)
    reader = FetchReader(broker, request, plan, uses_topic_ids=uses_topic_ids)
    reading = reader.read()
    if _is_enough(reading, request) or request.max_wait_ms <= 0 or not plan.wanted:
        return _response(context, plan, reading)
    return _WaitingFetch(context, request, plan, reader).future


def _is_enough(reading: Reading, request: FetchFrame) -> bool:
    return reading.total_bytes >= request.min_bytes or reading.is_urgent


def _response(context: RequestContext, plan: FetchPlan, reading: Reading) -> list[Any]:
    return encode_fetch_response(
        reading.topics(plan), context.api_version, context.correlation_id, session_id=plan.session_id
    )


class _WaitingFetch:
    """A long poll: waits for enough bytes, or for the time to be up."""

    __slots__ = (
        "_context",
        "_is_scheduled",
        "_loop",
        "_partitions",
        "_plan",
        "_reader",
        "_request",
        "_timer",
        "_waits",
        "future",
    )

    def __init__(self, context: RequestContext, request: FetchFrame, plan: FetchPlan, reader: FetchReader) -> None:
        self._context = context
        self._request = request
        self._plan = plan
        self._reader = reader
        self._is_scheduled = False
        self._partitions: list[Partition] = list(reader.partitions())
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[Any]] = self._loop.create_future()
        self.future.add_done_callback(self._clean_up)
        self._timer = self._loop.call_later(request.max_wait_ms / 1000, self._finish)
        self._wait()

    def _wait(self) -> None:
        """Be woken when any of the partitions has more than what was just looked at."""
        self._waits = [
            (waits, waits.add(reached + 1, self._woken))
            for waits, reached in map(self._reader.end_of, self._partitions)
        ]

    def _stop_waiting(self) -> None:
        for waits, wait in self._waits:
            waits.cancel(wait)

    def _woken(self) -> None:
        """Look again, once, when all requests that the node has at hand are done: they may bring more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_scheduled = False
        if self.future.done():
            return
        self._read(is_last=False)

    def _finish(self) -> None:
        if not self.future.done():
            self._read(is_last=True)

    def _read(self, *, is_last: bool) -> None:
        try:
            reading = self._reader.read()
            if is_last or _is_enough(reading, self._request):
                self.future.set_result(_response(self._context, self._plan, reading))
            else:
                self._stop_waiting()
                self._wait()
        except Exception as error:  # the loop called us: whoever waits for the future must hear of it
            self.future.set_exception(error)

    def _clean_up(self, _: object) -> None:
        self._timer.cancel()
        self._stop_waiting()
