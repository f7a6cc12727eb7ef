"""When clients may ask and push, and what they hear else: by Kafka's rules, row by row of the table."""

from typing import Any
from uuid import UUID

import pytest

from penstock.node.telemetry.clients import Clients, Pushed
from penstock.node.telemetry.subscriptions import Attributes, Wanted
from penstock.protocol.errors import ErrorCode, KafkaError

INTERVAL_MS = 1000
BEGUN_MS = 1_700_000_000_000
MAX_BYTES = 100


class Asking:
    def __init__(self, most: int = 100) -> None:
        self.number = 5
        self.clients = Clients(lambda client: Wanted(self.number, INTERVAL_MS, ("a",)), most)
        self.now_ms = BEGUN_MS

    def ask(self, client: int = 1) -> ErrorCode:
        try:
            self.clients.ask(Attributes(client_instance_id=UUID(int=client)), self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def push(
        self, number: int | None = None, *, codec: int = 4, size: int = 10, is_last: bool = False, client: int = 1
    ) -> ErrorCode:
        pushed = Pushed(self.number if number is None else number, codec, size, is_last)
        try:
            self.clients.push(Attributes(client_instance_id=UUID(int=client)), pushed, MAX_BYTES, self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


def test_a_client_asks_and_pushes_once_in_an_interval() -> None:
    asking = Asking()
    assert asking.ask() == ErrorCode.NONE
    assert asking.ask() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    asking.now_ms += INTERVAL_MS // 2
    assert asking.push() == ErrorCode.NONE, "the first push after it asked comes when the client likes"
    asking.now_ms += INTERVAL_MS - 1
    assert asking.push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert asking.ask() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    asking.now_ms += 1
    assert asking.push() == ErrorCode.NONE
    assert asking.clients.throttled == 3


def test_the_last_push_comes_at_once_and_is_the_last() -> None:
    asking = Asking()
    asking.ask()
    assert asking.push() == ErrorCode.NONE
    assert asking.push(is_last=True) == ErrorCode.NONE
    asking.now_ms += INTERVAL_MS
    assert asking.push() == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("pushed", "code", "asks_at_once"),
    [
        ({"number": 6}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        ({"size": MAX_BYTES + 1}, ErrorCode.TELEMETRY_TOO_LARGE, False),
        ({"size": MAX_BYTES, "codec": 0}, ErrorCode.NONE, False),
        ({"number": 4}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
    ],
)
def test_what_is_pushed_wrongly_is_refused(pushed: dict[str, Any], code: ErrorCode, asks_at_once: bool) -> None:
    asking = Asking()
    asking.ask()
    assert asking.push(**pushed) == code
    assert (asking.ask() == ErrorCode.NONE) is asks_at_once


def test_a_change_of_subscriptions_is_heard_at_the_next_request() -> None:
    asking = Asking()
    asking.ask()
    asking.push()
    asking.number = 6
    assert asking.push(number=5) == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "nobody has told of the change"
    asking.clients.subscriptions_changed()
    assert asking.push(number=5) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert asking.ask() == ErrorCode.NONE
    asking.now_ms += INTERVAL_MS
    assert asking.push(number=6) == ErrorCode.NONE


def test_a_client_that_another_broker_asked_pushes_here() -> None:
    assert Asking().push() == ErrorCode.NONE


def test_of_twenty_thousand_clients_the_oldest_are_forgotten() -> None:
    asking = Asking(most=100)
    for client in range(20_000):
        assert asking.ask(client) == ErrorCode.NONE
    assert len(asking.clients) == 100
    assert asking.ask(19_999) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert asking.ask(0) == ErrorCode.NONE
