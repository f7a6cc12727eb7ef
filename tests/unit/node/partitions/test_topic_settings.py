"""What the configs of a topic become, over those of the broker, and whose replicas are held back."""

from collections.abc import Container
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.contexts import embedded
from tests.unit.node.on_disk import NODE_ID

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.partitions import topic_settings
from penstock.node.partitions.topic_settings import Throttles, TopicSettingsTable

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def table(**settings: str) -> TopicSettingsTable:
    return TopicSettingsTable(embedded(NODE_ID, **settings))


def test_the_same_settings_are_one_object_until_the_brokers_own_change() -> None:
    one = table()
    found = one.settings({"retention.ms": "7", "segment.bytes": "2000000"})
    assert one.settings({"segment.bytes": "2000000", "retention.ms": "7"}) is found
    assert one.settings({"retention.ms": "7"}) is not found
    one.forget()
    again = one.settings({"retention.ms": "7", "segment.bytes": "2000000"})
    assert (again is found, again == found) == (False, True)


def test_so_many_are_remembered_those_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic may be given another value over and over."""
    monkeypatch.setattr(topic_settings, "MOST_KNOWN", 5)
    one = table()
    usual, first = one.settings({}), one.settings({"retention.ms": "1"})
    for number in range(2, 20):
        one.settings({"retention.ms": str(number)})
        assert one.settings({}) is usual
        assert len(one._known) <= 5
    assert one.settings({"retention.ms": "19"}) is one.settings({"retention.ms": "19"})
    assert one.settings({"retention.ms": "1"}) is not first


def test_keys_of_the_topic_stand_before_those_of_the_broker() -> None:
    one = table(
        log_retention_ms="9", log_cleanup_policy="compact", min_insync_replicas="2", producer_id_expiration_ms="77"
    )
    log = one.settings({"segment.bytes": "2000000"}).log
    assert (log.retention_ms, log.segment_bytes, log.cleanup_policy) == (9, 2_000_000, frozenset({"compact"}))
    assert (log.producer_id_expiration_ms, one.settings({}).min_insync_replicas) == (77, 2)
    own = one.settings({"retention.ms": "7", "cleanup.policy": "delete,compact", "min.insync.replicas": "3"})
    assert (own.log.retention_ms, own.log.cleanup_policy) == (7, frozenset({"compact", "delete"}))
    assert own.min_insync_replicas == 3
    assert one.settings({"internal.segment.bytes": "99"}).log.segment_bytes == 99
    assert one.settings({"internal.segment.bytes": "99", "segment.bytes": "2000000"}).log.segment_bytes == 99


@pytest.mark.parametrize(("value", "validates"), [("full", True), ("header", False)])
def test_whether_records_are_looked_at_is_the_brokers(value: str, validates: bool) -> None:
    assert table(penstock_produce_validate=value).settings({}).log.validates_records is validates


@pytest.mark.parametrize(("value", "is_zero"), [("zero", True), ("any", False)])
def test_with_which_sequence_a_producer_begins_is_the_brokers(value: str, is_zero: bool) -> None:
    assert table(penstock_produce_first_sequence=value).settings({}).log.first_sequence_is_zero is is_zero


def throttled(value: str | None) -> list[list[int]]:
    """Which of some partitions are throttled, by either key."""
    settings = table().settings({} if value is None else {LEADERS: value, FOLLOWERS: value})
    lists: tuple[Container[int], ...] = settings.throttled_leaders, settings.throttled_followers
    return [[index for index in (0, 1, 2, 2**31 - 1) if index in those] for those in lists]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        ("", []),
        ("*", [0, 1, 2, 2**31 - 1]),
        (f"0:{NODE_ID}", [0]),
        (f"0:{NODE_ID + 1}", []),
        (f"0:{NODE_ID + 1},2:{NODE_ID},1:{NODE_ID}", [1, 2]),
    ],
)
def test_the_replicas_of_this_broker_are_throttled(value: str | None, expected: list[int]) -> None:
    assert throttled(value) == [expected, expected]
    only = table().settings({FOLLOWERS: "*"})
    assert (0 in only.throttled_leaders, 0 in only.throttled_followers) == (False, True)


def test_limits_are_those_of_the_broker_and_change_with_it() -> None:
    config: BrokerConfig = embedded(NODE_ID)
    throttles = Throttles(config)
    before = [one.bytes_per_s for one in (throttles.leader, throttles.follower, throttles.directories)]
    assert len(set(before)) == 1
    keys = {
        "leader.replication.throttled.rate": "11",
        "follower.replication.throttled.rate": "12",
        "replica.alter.log.dirs.io.max.bytes.per.second": "13",
    }
    config.apply_dynamic(broker=keys, default={})
    throttles.configure()
    assert [one.bytes_per_s for one in (throttles.leader, throttles.follower, throttles.directories)] == [11, 12, 13]


def test_what_is_not_understood_or_has_no_effect_is_told(caplog: pytest.LogCaptureFixture) -> None:
    one = table()
    found = one.settings({"retention.ms": "soon", "segment.bytes": "2000000"})
    assert found.log == one.settings({"segment.bytes": "2000000"}).log
    assert "retention.ms of a topic has no effect on this node: retention.ms: 'soon'" in caplog.text
    caplog.clear()
    for value in ("1", "2"):
        one.settings({"preallocate": "true", "retention.ms": value})
    assert len([line for line in caplog.messages if "has no effect" in line]) == 1, "once"


def test_limits_hold_from_the_start() -> None:
    rates = {
        "leader.replication.throttled.rate": "5",
        "follower.replication.throttled.rate": "6",
        "replica.alter.log.dirs.io.max.bytes.per.second": "7",
    }
    limits = Throttles(BrokerConfig.embedded(rates))
    assert [one.bytes_per_s for one in (limits.leader, limits.follower, limits.directories)] == [5, 6, 7]


def test_windows_are_those_of_the_broker() -> None:
    keys = {
        "replication.quota.window.num": "3",
        "replication.quota.window.size.seconds": "2",
        "alter.log.dirs.replication.quota.window.num": "5",
        "alter.log.dirs.replication.quota.window.size.seconds": "4",
    }
    limits = Throttles(BrokerConfig.embedded(keys))
    made = [(one._remembered_ms, one._window_ms) for one in (limits.leader, limits.follower, limits.directories)]
    assert made == [(6_000, 2_000), (6_000, 2_000), (20_000, 4_000)]


@pytest.mark.parametrize(("leads", "follows"), [(True, False), (False, True), (True, True), (False, False)])
def test_a_partition_is_held_back_that_its_topic_names(leads: bool, follows: bool) -> None:
    limits, partition = Throttles(embedded(NODE_ID)), cast("Any", SimpleNamespace(index=3))
    settings: Any = SimpleNamespace(throttled_leaders=[3] * leads, throttled_followers=[3] * follows)
    limits.apply(partition, settings)
    assert partition.leader_quota is (limits.leader if leads else None)
    assert partition.follower_quota is (limits.follower if follows else None)


def test_what_was_set_is_remembered_up_to_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand topics with long lists had hundreds of megabytes, after they had gone as well."""
    monkeypatch.setattr("penstock.node.partitions.topic_settings.MOST_CHARACTERS", 100)
    settings = table()
    sets = [{"retention.ms": str(number) + "0" * 10} for number in range(1, 9)]
    first = settings.settings(sets[0])
    assert [settings.settings(one) is first for one in (sets[0], sets[1], sets[0])] == [True, False, True]
    for one in sets:
        settings.settings(one)
    assert len(settings._known) == 4
    again = settings.settings(sets[0])
    assert (again is first, again) == (False, first)
    settings.forget()
    assert (settings._known, settings._characters) == ({}, 0)


def test_a_topic_of_which_very_much_was_set_shares_its_settings_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.partitions.topic_settings.MOST_CHARACTERS", 10)
    settings, much = table(), {"retention.ms": "1" * 10}
    assert settings.settings(much) is settings.settings(much)
    assert settings.settings({"retention.ms": "2" * 10}) is not settings.settings(much)
    assert len(settings._known) == 1
