"""What is left of a quota: the rate holds over any time, whatever is asked for, and however long nobody came."""

from __future__ import annotations

from random import Random

import pytest

from penstock.metadata.quotas.bucket import Bucket

RATE = 1000.0


def taken_in(total_ms: int, size: int, *, pause_ms: int = 0, rate: float = RATE) -> float:
    """What a client gets in that time that takes as much as it may, in pieces, and rests in between."""
    bucket, now_ms, taken = Bucket(rate, 1, 0), 0, 0
    while now_ms < total_ms:
        taken += size
        now_ms += max(bucket.take(size, now_ms), pause_ms)
    return taken


@pytest.mark.parametrize("size", [1, 7, 100, 900, 1000, 3000])
def test_a_greedy_client_gets_its_rate_within_five_percent_over_thirty_seconds(size: int) -> None:
    assert taken_in(30_000, size) == pytest.approx(RATE * 30, rel=0.05, abs=size)


@pytest.mark.parametrize("size", [100, 3000, 40_000])
def test_in_no_time_does_anybody_get_more_than_rate_depth_and_one_request(size: int) -> None:
    """Also after a rest, and however long: what is owed is never forgiven."""
    random, bucket, now_ms = Random(size), Bucket(RATE, 1, 0), 0
    takes: list[tuple[int, int]] = []
    for _ in range(2000):
        now_ms += bucket.owed_ms(now_ms) + random.choice((0, 0, 0, 1, 700, 20_000))
        piece = random.randint(1, size)
        bucket.take(piece, now_ms)
        takes.append((now_ms, piece))
    begun = total = 0
    for ended, (end_ms, piece) in enumerate(takes):
        total += piece
        while end_ms - takes[begun][0] > 30_000:
            total -= takes[begun][1]
            begun += 1
        assert total <= RATE * (end_ms - takes[begun][0]) / 1000 + RATE + size, ended


def test_a_client_that_rests_in_between_gets_what_it_would_have_got() -> None:
    assert taken_in(60_000, 2000, pause_ms=1900) == pytest.approx(RATE * 60, rel=0.05)


def test_how_long_a_client_has_to_wait() -> None:
    bucket = Bucket(RATE, 1, 0)
    assert bucket.take(1000, 0) == 0
    assert bucket.take(500, 0) == 500
    assert (bucket.owed_ms(200), bucket.is_owing) == (300, True)
    assert bucket.owed_ms(499) == 1
    assert (bucket.owed_ms(500), bucket.is_owing) == (0, False)
    assert (bucket.taken, bucket.throttled_ms) == (1500, 0)


def test_more_time_than_the_depth_brings_no_more() -> None:
    bucket = Bucket(RATE, 1, 0)
    assert bucket.take(1001, 1_000_000) == 1


def test_a_clock_that_was_set_back_takes_and_gives_nothing() -> None:
    bucket = Bucket(RATE, 1, 10_000)
    bucket.take(1500, 10_000)
    assert bucket.owed_ms(9_000) == 500
    assert bucket.owed_ms(9_100) == 400


def test_what_is_given_back_is_there_again() -> None:
    bucket = Bucket(RATE, 1, 0)
    bucket.take(1500, 0)
    bucket.give_back(1000)
    assert (bucket.owed_ms(0), bucket.taken) == (0, 500)
    bucket.give_back(5000)
    assert bucket.take(1000, 0) == 0
    assert bucket.take(1, 0) == 1


def test_another_rate_counts_from_then_on() -> None:
    bucket = Bucket(RATE, 1, 0)
    bucket.take(2000, 0)
    bucket.rate = 100.0
    assert bucket.owed_ms(0) == 10_000


def test_in_the_same_millisecond_nothing_comes_back() -> None:
    bucket = Bucket(1000, 1, 0)
    assert (bucket.take(1500, 0), bucket.owed_ms(0), bucket.owed_ms(0), bucket.owed_ms(1)) == (500, 500, 500, 499)
