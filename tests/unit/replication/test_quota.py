"""How fast replication may go where it is throttled."""

from random import Random

import pytest

from penstock.replication.quota import UNLIMITED, ReplicationQuota


def quota(bytes_per_s: int, windows: int = 11) -> ReplicationQuota:
    return ReplicationQuota(windows=windows, window_ms=1000, bytes_per_s=bytes_per_s)


def test_nothing_is_held_back_without_a_limit() -> None:
    limit = quota(UNLIMITED)
    limit.record(10**15, 0)
    assert not limit.is_exceeded(0)
    assert limit.wait_ms(0) == 0


def test_the_first_window_counts_as_a_whole() -> None:
    limit = quota(100)
    limit.record(100, 0)
    assert not limit.is_exceeded(0)
    limit.record(1, 1)
    assert limit.is_exceeded(1)
    assert limit.is_exceeded(1000)
    assert not limit.is_exceeded(1010)


def test_one_step_too_large_is_made_up_for_by_a_pause() -> None:
    limit = quota(100)
    limit.record(450, 0)
    assert limit.wait_ms(0) == 4500
    assert limit.is_exceeded(4499)
    assert not limit.is_exceeded(4500)


def test_what_passed_long_ago_is_forgotten() -> None:
    limit = quota(100, windows=3)
    limit.record(10_000, 0)
    assert limit.wait_ms(0) == 3000, "not the hundred seconds that it would take"
    assert limit.is_exceeded(2999)
    assert not limit.is_exceeded(3000)


def test_another_limit_holds_at_once() -> None:
    limit = quota(100)
    limit.record(500, 0)
    limit.bytes_per_s = 500
    assert not limit.is_exceeded(0)
    limit.bytes_per_s = 499
    assert limit.is_exceeded(0)


def test_a_limit_of_nothing_lets_something_pass_when_all_is_forgotten() -> None:
    limit = quota(0)
    assert not limit.is_exceeded(0), "as in Kafka: a rate of 0 is not above 0"
    limit.record(1, 0)
    assert limit.wait_ms(0) == 11_000
    assert not limit.is_exceeded(11_000)


def test_a_clock_that_is_set_back_holds_nobody_up() -> None:
    limit = quota(100)
    limit.record(1_000, 3_600_000)
    limit.record(50, 0)
    assert not limit.is_exceeded(0)


@pytest.mark.parametrize("seed", range(20))
def test_who_waits_when_told_to_keeps_the_rate(seed: int) -> None:
    random = Random(seed)
    rate = random.randrange(1_000, 1_000_000)
    limit = quota(rate)
    now_ms = passed = 0
    while now_ms < 100_000:
        wait_ms = limit.wait_ms(now_ms)
        if wait_ms:
            now_ms += wait_ms
            continue
        step = random.randrange(1, rate)
        limit.record(step, now_ms)
        passed += step
        now_ms += random.randrange(20)
    assert 0.95 < passed / rate / (now_ms / 1000) < 1.1


def test_windows_are_forgotten_one_by_one() -> None:
    limit = quota(100, windows=3)
    limit.record(1_000, 0)
    limit.record(1, 2_999)
    assert limit.is_exceeded(2_999)
    assert not limit.is_exceeded(3_000), "the first window is gone, the last one stays"


def test_what_passes_within_a_window_is_remembered_together() -> None:
    limit = quota(50, windows=3)
    limit.record(100, 900)
    limit.record(100, 1_100)
    assert limit.is_exceeded(3_950)


def test_what_passed_last_in_a_window_is_remembered_as_long_as_anything() -> None:
    limit = quota(100, windows=3)
    limit.record(1, 0)
    limit.record(10_000, 999)
    assert limit.is_exceeded(3_998)
    assert not limit.is_exceeded(3_999)


def test_a_new_window_begins_when_one_is_over() -> None:
    """Each is forgotten by itself."""
    limit = quota(100, windows=3)
    for now_ms in (0, 999, 1_000, 2_000):
        limit.record(1_000, now_ms)
    assert limit._measure(3_998) == (4_000, 3_998)
    assert limit._measure(3_999) == (2_000, 2_999)
    assert limit._measure(4_000) == (1_000, 2_000)
    assert limit._measure(5_000) == (0, 0)


def test_no_limit_is_what_kafka_has_where_none_is_set() -> None:
    assert UNLIMITED == 9_223_372_036_854_775_807
