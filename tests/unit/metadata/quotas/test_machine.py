"""Who share a quota share what is left of it, changes count at once, and memory is bounded."""

from __future__ import annotations

import pytest
from tests.unit.metadata.quotas.records import quota

from penstock.metadata.quotas import machine as machine_module
from penstock.metadata.quotas.bucket import Bucket
from penstock.metadata.quotas.machine import IDLE_MS, QuotaMachine, Windows
from penstock.metadata.security_records import ClientQuotaRecord

RATE = "producer_byte_rate"
WINDOWS = Windows()


def machine(*records: ClientQuotaRecord, windows: Windows = WINDOWS) -> QuotaMachine:
    found = QuotaMachine(windows)
    found.replace(records)
    return found


def producer(of: QuotaMachine, user: str, client_id: str, now_ms: int = 0) -> Bucket:
    bucket = of.client(user, client_id, now_ms).producer
    assert bucket is not None
    return bucket


def test_clients_of_a_user_share_its_quota() -> None:
    node = machine(quota(RATE, 100, user="ada"))
    assert producer(node, "ada", "a").take(150, 0) == 500
    assert producer(node, "ada", "b").owed_ms(0) == 500
    assert node.client("bob", "a", 0).is_unlimited


def test_each_user_has_the_default_for_itself() -> None:
    node = machine(quota(RATE, 100, user=None))
    producer(node, "ada", "a").take(150, 0)
    assert producer(node, "bob", "a").owed_ms(0) == 0
    assert producer(node, "ada", "b").owed_ms(0) == 500


def test_users_share_the_quota_of_a_client_id() -> None:
    node = machine(quota(RATE, 100, client_id=None))
    producer(node, "ada", "a").take(150, 0)
    assert producer(node, "bob", "a").owed_ms(0) == 500
    assert producer(node, "ada", "b").owed_ms(0) == 0


def test_a_change_counts_at_once_and_keeps_what_is_owed() -> None:
    node = machine(quota(RATE, 100, user="ada"))
    producer(node, "ada", "a").take(200, 0)
    node.apply(quota(RATE, 10, user="ada"))
    assert producer(node, "ada", "a").owed_ms(0) == 10_000
    node.apply(quota(RATE, None, user="ada"))
    assert node.client("ada", "a", 0).is_unlimited
    assert not node.has_limits


def test_all_other_quotas_go_when_they_are_replaced() -> None:
    node = machine(quota(RATE, 100, user="ada"))
    node.replace([quota(RATE, 100, user="bob")])
    assert node.client("ada", "a", 0).is_unlimited
    assert not node.client("bob", "a", 0).is_unlimited


def test_windows_say_how_much_may_come_at_once() -> None:
    records = [quota(RATE, 100, user="ada"), quota("controller_mutation_rate", 2, user="ada")]
    records += [quota("consumer_byte_rate", 100, user="ada"), quota("request_percentage", 5, user="ada")]
    found = machine(*records, windows=Windows(3, 8)).client("ada", "a", 0)
    assert found.producer is not None
    assert (found.producer.take(300, 0), found.producer.take(1, 0)) == (0, 10)
    assert found.mutation is not None
    assert (found.mutation.take(16, 0), found.mutation.take(1, 0)) == (0, 500)
    assert found.request is not None
    assert (found.request.take(150, 0), found.request.take(1, 0)) == (0, 20), "5 % are 50 ms in a second"
    assert found.most_fetched == 75


def test_what_nobody_uses_for_an_hour_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    node = machine(quota(RATE, 100, user=None))
    for name in ("a", "b", "c"):
        producer(node, name, "x")
    producer(node, "b", "x").take(1, IDLE_MS)
    assert [share.user for share, _ in node.items(IDLE_MS)] == ["b"]
    producer(node, "d", "x", IDLE_MS)
    assert [share.user for share, _ in node.items(0)] == ["b", "d"]
    assert producer(node, "b", "x", IDLE_MS).taken == 1


def test_the_memory_is_bounded_and_those_who_owe_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "MAX_BUCKETS", 4)
    node = machine(quota(RATE, 100, user=None))
    producer(node, "debtor", "x").take(1000, 0)
    for number in range(100):
        producer(node, f"user {number}", "x", number)
        assert len(list(node.items(0))) <= 4
    assert producer(node, "debtor", "x", 100).owed_ms(100) == 8_900
    assert len(node._clients) <= 4


def test_addresses_have_buckets_of_connections() -> None:
    node = machine(quota("connection_creation_rate", 2, ip="10.0.0.1"))
    assert node.address("10.0.0.2", 0) is None
    bucket = node.address("10.0.0.1", 0)
    assert bucket is not None
    assert (bucket.take(2, 0), bucket.take(1, 0)) == (0, 500)
    assert node.address("10.0.0.1", 0) is bucket


def test_who_comes_back_shares_a_new_bucket_and_none_that_was_forgotten() -> None:
    node = machine(quota(RATE, 100, user=None))
    old = producer(node, "ada", "a", 0)
    for number in range(5):
        producer(node, f"new {number}", "a", IDLE_MS)
    again = producer(node, "ada", "a", IDLE_MS)
    assert again is not old
    assert again in [bucket for _, bucket in node.items(IDLE_MS)]


def test_who_is_known_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "MAX_BUCKETS", 3)
    node = machine()
    first = node.client("a", "x", 0)
    assert node.client("b", "x", 0) is not None
    assert node.client("c", "x", 0) is not None
    assert node.client("a", "x", 0) is first
    node.client("d", "x", 0)
    assert node.client("a", "x", 0) is not first, "there was no room for more"


def test_another_bucket_takes_nothing_from_who_is_known() -> None:
    node = machine(quota(RATE, 100, user=None))
    first = node.client("a", "x", 0)
    node.client("b", "x", 0)
    assert node.client("a", "x", 0) is first
    node.client("c", "x", IDLE_MS)
    assert node.client("a", "x", IDLE_MS) is not first, "its bucket was forgotten"
