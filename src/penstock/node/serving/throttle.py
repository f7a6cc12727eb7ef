"""Clients that take more than their quotas allow are told for how long they must wait, and are not heard meanwhile.

By KIP-219 a request is answered at once, with the time in `throttle_time_ms`, and then its connection is muted for so
long: a client that does not heed the time is held back all the same. Each request costs what it took: a produce request
its bytes, a fetch those of its answer, and every one the time that the event loop spent on it. A client that owes gets
no records: its fetch is answered at once and is empty, and its session goes on.

Nodes among themselves are not counted: what only nodes may ask, what followers fetch, and what else comes from nodes as
far as they are known. Nor is what comes before a log-in: strangers would owe in the name of ANONYMOUS, and then nobody
could log in. A heartbeat is muted for a second at most, as its member would be taken for dead.

This module is loaded when the first quota is set.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from functools import cache, partial
from itertools import takewhile
from typing import Any, Final, cast

from penstock.metadata.quotas.bucket import Bucket
from penstock.metadata.quotas.entities import MAX_NAME
from penstock.metadata.quotas.machine import ClientBuckets, QuotaMachine, Windows
from penstock.metadata.security_records import ClientQuotaRecord
from penstock.node.serving.connections import Admitted
from penstock.node.serving.dispatch import OnAnswer
from penstock.node.serving.late_answer import LateAnswer
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.refusals import QUIET_S
from penstock.node.serving.session import Session
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import decode_response, encode_response, read_request_header
from penstock.protocol.source import FIXED_SIZE, Version, fields_in

logger = logging.getLogger(__name__)

HEARTBEATS: Final = frozenset(
    (
        ApiKey.HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    )
)
LONGEST_OF_HEARTBEATS_MS: Final = 1000
LONGEST_MS: Final = 2**31 - 1
_THROTTLE: Final = struct.Struct(">i")
_UNLIMITED: Final = 2**63 - 1


class ClientThrottle:
    """`nodes_apis` are those that only nodes use, `is_node` knows them by session and client id; `clock_s` is that of
    the event loop.
    """

    def __init__(
        self,
        windows: Windows,
        clock_s: Callable[[], float],
        nodes_apis: Collection[int] = (),
        is_node: Callable[[Session, str], bool] = lambda session, client_id: False,
    ) -> None:
        self.machine = QuotaMachine(windows)
        self.clock_s = clock_s
        self._nodes_apis = frozenset(nodes_apis)
        self._is_node = is_node
        self._told_s: dict[tuple[str, str], float] = {}

    @property
    def has_quotas(self) -> bool:
        return self.machine.has_limits

    def replace(self, records: Iterable[ClientQuotaRecord]) -> None:
        """All quotas are these."""
        self.machine.replace(records)

    def apply(self, record: ClientQuotaRecord) -> None:
        self.machine.apply(record)

    def now_ms(self) -> int:
        return int(self.clock_s() * 1000)

    def begin(self, frame: memoryview, connection: Admitted, session: Session) -> tuple[OnAnswer, RequestCharge] | None:
        api_key, version, _, client_id, _ = read_request_header(frame)
        if api_key in self._nodes_apis or session.has_to_log_in:
            return None
        names = session.principal.name[:MAX_NAME], (client_id or "")[:MAX_NAME]
        buckets = self.machine.client(*names, self.now_ms())
        if buckets.is_unlimited or self._is_node(session, client_id or ""):
            return None
        charge = RequestCharge(self, buckets, connection, (api_key, version), len(frame))
        return charge.answered, charge

    def refuses(self, host: str) -> bool:
        """What is refused is not counted, or a client that comes again and again would never get in."""
        now_ms = self.now_ms()
        bucket = self.machine.address(host, now_ms)
        if bucket is None:
            return False
        if bucket.owed_ms(now_ms):
            return True
        bucket.take(1, now_ms)
        return False

    def tell_of_heartbeats(self, session: Session | None) -> None:
        """Once in a while for each client."""
        if session is None:
            return
        cause, now_s = (session.principal.name, session.client_host), self.clock_s()
        if now_s - self._told_s.get(cause, now_s - QUIET_S) < QUIET_S:
            return
        if len(self._told_s) >= 1000:
            self._told_s.clear()
        self._told_s[cause] = now_s
        logger.warning(
            "%s: %s exceeds its request_percentage; its heartbeats are held back for %d ms at most, as its member would"
            " be taken for dead else",
            *(session, session.principal, LONGEST_OF_HEARTBEATS_MS),
        )


class RequestCharge:
    """One request, from when it is taken to when it is answered.

    What it took is counted when that is known, whether or not its client stays for the answer.
    """

    __slots__ = (
        "_added_ms",
        "_api",
        "_begun_s",
        "_buckets",
        "_connection",
        "_is_counted",
        "_throttle",
        "_waits",
        "most_fetched",
    )

    def __init__(
        self, throttle: ClientThrottle, buckets: ClientBuckets, connection: Admitted, api: tuple[int, int], size: int
    ) -> None:
        self._throttle = throttle
        self._buckets = buckets
        self._connection = connection
        self._api = api
        self._begun_s = throttle.clock_s()
        self._added_ms = 0
        self._waits = False
        self._is_counted = True
        self.most_fetched = buckets.most_fetched
        if api[0] == ApiKey.PRODUCE and buckets.producer is not None:
            buckets.producer.take(size, throttle.now_ms())

    def waits(self, answer: Awaitable[Any]) -> Awaitable[Any]:
        self._waits = True
        self._took(self._throttle.clock_s() - self._begun_s)
        counts = self._buckets.request is not None and not isinstance(answer, LateAnswer)
        return _Counted(answer, self._throttle.clock_s, self._took) if counts else answer

    def _took(self, seconds: float) -> None:
        """The event loop was busy with it for so long."""
        if self._is_counted and self._buckets.request is not None:
            self._buckets.request.take(seconds * 1000, self._throttle.now_ms())

    def is_of_a_node(self) -> None:
        self._is_counted = False
        self.most_fetched = _UNLIMITED

    def fetch_owed_ms(self) -> int:
        self._added_ms = self._owed_ms(self._buckets.consumer)
        return self._added_ms

    def add_ms(self, throttle_time_ms: int) -> None:
        self._added_ms = max(self._added_ms, throttle_time_ms)

    def answered(self, parts: list[ResponsePart]) -> None:
        """Count what the answer takes, tell the client in it, and mute the connection behind it; it goes out now."""
        if not self._is_counted:
            return
        (api_key, version), buckets = self._api, self._buckets
        if not self._waits:
            self._took(self._throttle.clock_s() - self._begun_s)
        throttled_ms = self._added_ms
        if api_key != ApiKey.FETCH:
            throttled_ms = max(throttled_ms, self._owed_ms(buckets.producer if api_key == ApiKey.PRODUCE else None))
        elif buckets.consumer is not None and not throttled_ms:
            buckets.consumer.take(sum(map(len, parts)), self._throttle.now_ms())
        if not throttled_ms:
            return
        throttled_ms = min(throttled_ms, LONGEST_MS)
        if api_key in HEARTBEATS and throttled_ms > LONGEST_OF_HEARTBEATS_MS:
            throttled_ms = LONGEST_OF_HEARTBEATS_MS
            self._throttle.tell_of_heartbeats(self._connection.session)
        tell(parts, api_key, version, throttled_ms)
        self._connection.mute(throttled_ms / 1000)

    def _owed_ms(self, besides: Bucket | None) -> int:
        """The longest time that the client owes by its time of the event loop, and by another quota; that notes it."""
        now_ms = self._throttle.now_ms()
        owed = [(bucket.owed_ms(now_ms), bucket) for bucket in (self._buckets.request, besides) if bucket is not None]
        longest_ms, longest = max(owed, key=lambda one: one[0], default=(0, None))
        if longest is not None:
            longest.throttled_ms += longest_ms
        return longest_ms


class _Counted:
    """What is awaited, with the time that each of its steps takes of the event loop; in between others have theirs."""

    __slots__ = ("_answer", "_clock_s", "_took")

    def __init__(self, answer: Awaitable[Any], clock_s: Callable[[], float], took: Callable[[float], None]) -> None:
        self._answer = answer
        self._clock_s = clock_s
        self._took = took

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._answer.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            begun_s = self._clock_s()
            try:
                awaited = step()
            except StopIteration as stop:
                return stop.value
            finally:
                self._took(self._clock_s() - begun_s)
            try:
                yield awaited
                step = partial(next, steps)
            except BaseException as error:  # the one who waits was cancelled: it is for what is awaited to hear of
                step = partial(steps.throw, error)


def tell(parts: list[ResponsePart], api_key: int, version: int, throttle_time_ms: int) -> None:
    """Put the time into an encoded answer, in whatever place its layout has for it, if it has one.

    What answers a version of ApiVersions that nobody knows has the layout of version 0, without a place.
    """
    if not parts or version not in api_of(api_key).versions:
        return
    place = _place(api_key, version)
    if place is None:
        return
    if place or len(parts) > 1:  # a long answer to Produce has a part that begins with the time
        part = 0 if place > 0 else -1
        answer = bytearray(cast("bytes", parts[part]))  # neither the first part nor that one is a file's
        _THROTTLE.pack_into(answer, place, throttle_time_ms)
        parts[part] = bytes(answer)
        return
    answer = bytearray(cast("bytes", parts[0]))
    correlation_id, message = decode_response(api_key, version, memoryview(answer)[4:])
    told: Any = message
    told.throttle_time_ms = throttle_time_ms
    parts[0] = encode_response(told, api_key, version, correlation_id)


@cache
def _place(api_key: int, version: int) -> int | None:
    """Where the time stands in an answer, from its beginning or, below 0, from its end; 0 if that is not known before
    it is decoded, None for nowhere.
    """
    api = api_of(api_key)
    layout = Version(api.response_class, version)
    fields, tagged, _ = fields_in(api.response_class, layout)
    if "throttle_time_ms" not in fields:
        return None
    before = list(takewhile(lambda name: name != "throttle_time_ms", fields))
    if all(not fields[name].is_array and fields[name].kind in FIXED_SIZE for name in before):
        sizes = (FIXED_SIZE[cast("str", fields[name].kind)] for name in before)
        return 8 + api.response_header_version(version) + sum(sizes)
    is_last = len(before) == len(fields) - 1 and not tagged
    return -_THROTTLE.size - layout.flexible if is_last else 0
