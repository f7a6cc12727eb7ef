"""The clients that may push metrics: what each was asked for, and when it may ask and push again.

| a client                          | hears                                                        |
| --------------------------------- | ------------------------------------------------------------ |
| asks before its interval is over  | THROTTLING_QUOTA_EXCEEDED, unless its last push was refused  |
|                                   | for a number that is not known, or for its codec             |
| pushes before its interval is over | the same, but for its first push after it asked, as it comes |
|                                   | at a moment that clients draw, and for its last              |
| pushes after its last push        | INVALID_REQUEST                                              |
| pushes what it was not asked for  | UNKNOWN_SUBSCRIPTION_ID: it asks again                       |
| pushes in a codec that is none    | UNSUPPORTED_COMPRESSION_TYPE                                 |
| pushes more than it may           | TELEMETRY_TOO_LARGE                                          |

A client of which nothing is known is as good as new: another broker may have asked it. When subscriptions change, all
are, so that each hears of the change at its next request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.node.telemetry.subscriptions import Attributes, Wanted
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError

MOST_CLIENTS: Final = 16_384
"""So many are known at a time; who was not heard of for the longest time is forgotten, and as good as new."""
ASKS_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
NEVER: Final = -(1 << 62)


@dataclass(slots=True)
class _Client:
    wanted: Wanted
    version: int
    asked_ms: int = NEVER
    pushed_ms: int = NEVER
    has_ended: bool = False
    last_error: ErrorCode = ErrorCode.NONE


class Clients:
    """`wanted` says what a client is to push by the subscriptions as they are; tell of their changes."""

    def __init__(self, wanted: Callable[[Attributes], Wanted], most: int = MOST_CLIENTS) -> None:
        self._wanted = wanted
        self._most = most
        self._known: OrderedDict[UUID, _Client] = OrderedDict()
        self._version = 0
        self.throttled = self.unknown = 0
        """How often a client came too early, and with a number that it was not asked by."""

    def __len__(self) -> int:
        return len(self._known)

    def subscriptions_changed(self) -> None:
        self._version += 1

    def ask(self, attributes: Attributes, now_ms: int) -> Wanted:
        """Raises KafkaError."""
        client = self._client(attributes)
        is_due = now_ms - max(client.asked_ms, client.pushed_ms) >= client.wanted.interval_ms
        if is_due:
            client.asked_ms = now_ms
        elif client.last_error not in ASKS_AT_ONCE:
            self.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        client.last_error = ErrorCode.NONE
        return client.wanted

    def push(self, attributes: Attributes, pushed: Pushed, max_bytes: int, now_ms: int) -> Wanted:
        """Whether a push is taken. Raises KafkaError."""
        client = self._client(attributes)
        try:
            self._check(client, pushed, max_bytes, now_ms)
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.has_ended = pushed.is_last
        client.last_error = ErrorCode.NONE
        return client.wanted

    def _check(self, client: _Client, pushed: Pushed, max_bytes: int, now_ms: int) -> None:
        if client.has_ended:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        is_first = client.asked_ms > client.pushed_ms
        if is_first or now_ms - client.pushed_ms >= client.wanted.interval_ms:
            client.pushed_ms = now_ms
        elif not pushed.is_last:
            self.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if pushed.number != client.wanted.number:
            self.unknown += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if pushed.codec not in Compression.__members__.values():
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if pushed.size > max_bytes:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def was_refused(self, client_instance_id: UUID, code: ErrorCode) -> None:
        """What it pushed could not be read."""
        client = self._known.get(client_instance_id)
        if client is not None:
            client.last_error = code

    def _client(self, attributes: Attributes) -> _Client:
        key = attributes.client_instance_id
        client = self._known.get(key)
        if client is None or client.version != self._version:
            client = self._known[key] = _Client(self._wanted(attributes), self._version)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return client


@dataclass(slots=True)
class Pushed:
    """Of a push, what its header says."""

    number: int
    codec: int
    size: int
    is_last: bool
