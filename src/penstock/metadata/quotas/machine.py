"""The quotas of the clients of one node: a bucket for each limit and for all who share it.

A bucket begins when its first client comes and is forgotten when none has come for an hour, as Kafka's sensors are, or
when there are too many: then one of those goes that nobody used lately, and of these one that owes nothing.

| event                   | what becomes of buckets                                                     |
| ----------------------- | --------------------------------------------------------------------------- |
| a client comes          | it gets those of the limits that hold for it; new ones begin full           |
| the limits change       | each keeps what is owed; its rate changes when the next of its clients comes |
| no client for `IDLE_MS` | forgotten                                                                   |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from penstock.metadata.quotas.bucket import Bucket
from penstock.metadata.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from penstock.metadata.quotas.limits import Limit, QuotaLimits, Share
from penstock.metadata.security_records import ClientQuotaRecord
from penstock.protocol.value import Value

MAX_BUCKETS: Final = 10_000
IDLE_MS: Final = 3_600_000
_LOOKED_AT_ONCE: Final = 4
"""Of the buckets that were used least recently, with each new one: they go twice as fast as others come."""
_FETCHED_AT_ONCE: Final = 0.25
"""Of what a window allows."""
_MS_PER_PERCENT: Final = 10
"""A percent of the event loop's time is so many ms in each second."""


class Windows(Value):
    """How long buckets fill: `quota.window.size.seconds`, and all windows of the controller's quota, as in Kafka."""

    window_s: float = 1
    controller_s: float = 11


class ClientBuckets(Value):
    """The buckets of one client; None where it has no limit. `request` counts ms of the event loop's time."""

    producer: Bucket | None
    consumer: Bucket | None
    request: Bucket | None
    mutation: Bucket | None

    most_fetched: int = 2**63 - 1
    """The bytes that one fetch may bring, the first batch aside: a part of a window's, so that they come evenly."""

    @property
    def is_unlimited(self) -> bool:
        return self.producer is self.consumer is self.request is self.mutation is None


class QuotaMachine:
    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._limits = QuotaLimits()
        self._buckets: OrderedDict[Share, Bucket] = OrderedDict()
        self._clients: dict[tuple[str, str], ClientBuckets] = {}

    @property
    def has_limits(self) -> bool:
        return bool(self._limits)

    def replace(self, records: Iterable[ClientQuotaRecord]) -> None:
        """All quotas are these."""
        self._limits = QuotaLimits()
        for record in records:
            self._limits.apply(record)
        self._clients.clear()

    def apply(self, record: ClientQuotaRecord) -> None:
        self._limits.apply(record)
        self._clients.clear()

    def client(self, user: str, client_id: str, now_ms: int) -> ClientBuckets:
        known = self._clients.get((user, client_id))
        if known is None:
            known = self._found(user, client_id, now_ms)
            if len(self._clients) >= MAX_BUCKETS:
                self._clients.clear()
            self._clients[user, client_id] = known
        return known

    def address(self, address: str, now_ms: int) -> Bucket | None:
        """It counts connections."""
        limit = self._limits.of_ip(CONNECTION_CREATION_RATE, address)
        return self._bucket(limit, self._windows.window_s, now_ms)

    def items(self, now_ms: int) -> Iterator[tuple[Share, Bucket]]:
        """Those that are not forgotten."""
        return (item for item in self._buckets.items() if now_ms - item[1].last_ms < IDLE_MS)

    def _found(self, user: str, client_id: str, now_ms: int) -> ClientBuckets:
        limits, windows = self._limits, self._windows

        def bucket(key: str, depth_s: float, unit: float = 1) -> Bucket | None:
            return self._bucket(limits.of_client(key, user, client_id), depth_s, now_ms, unit)

        found = ClientBuckets(
            bucket(PRODUCER_BYTE_RATE, windows.window_s),
            bucket(CONSUMER_BYTE_RATE, windows.window_s),
            bucket(REQUEST_PERCENTAGE, windows.window_s, _MS_PER_PERCENT),
            bucket(CONTROLLER_MUTATION_RATE, windows.controller_s),
        )
        if found.consumer is None:
            return found
        return found.replace(most_fetched=int(found.consumer.rate * windows.window_s * _FETCHED_AT_ONCE))

    def _bucket(self, limit: Limit | None, depth_s: float, now_ms: int, unit: float = 1) -> Bucket | None:
        if limit is None:
            return None
        bucket = self._buckets.get(limit.share)
        if bucket is None:
            self._forget_some(now_ms)
            bucket = self._buckets[limit.share] = Bucket(limit.value * unit, depth_s, now_ms)
        bucket.rate = limit.value * unit
        return bucket

    def _forget_some(self, now_ms: int) -> None:
        """Make room for one more."""
        looked_at = [self._buckets.popitem(last=False) for _ in range(min(_LOOKED_AT_ONCE, len(self._buckets)))]
        kept = [item for item in looked_at if now_ms - item[1].last_ms < IDLE_MS]
        if len(self._buckets) + len(kept) >= MAX_BUCKETS:
            kept.remove(min(kept, key=lambda item: (item[1].is_owing, item[1].last_ms)))
        self._buckets.update(kept)
        if len(kept) < len(looked_at):
            self._clients.clear()  # they hold what is forgotten
