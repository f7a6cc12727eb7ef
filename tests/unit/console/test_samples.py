from penstock.console.samples import KEPT_S, MAX_NAMES, MAX_TIMES, Samples


def test_values_stand_at_their_times() -> None:
    samples = Samples()
    samples.take(10.0, {"a": 1.0})
    samples.take(15.0, {"a": 2.0, "b": 7.0})
    samples.take(20.0, {"b": 8.0})
    assert samples.of("a", "b", "c") == ([10, 15, 20], [[1.0, 2.0, None], [None, 7.0, 8.0], [None, None, None]])


def test_an_hour_is_kept_and_what_is_gone_by_then_is_forgotten() -> None:
    samples = Samples()
    samples.take(0.0, {"gone": 1.0, "a": 1.0})
    samples.take(KEPT_S, {"a": 2.0})
    samples.take(KEPT_S + 1, {"a": 3.0})
    assert samples.of("gone", "a") == ([3600, 3601], [[None, None], [2.0, 3.0]])
    assert list(samples._values) == ["a"]


def test_memory_has_a_limit() -> None:
    samples = Samples()
    for number in range(MAX_TIMES + 5):
        samples.take(number / 10, {"a": float(number)})
    times, (row,) = samples.of("a")
    assert len(times) == len(row) == MAX_TIMES
    assert row[-1] == MAX_TIMES + 4
    samples.take(1_000.0, {str(number): 1.0 for number in range(MAX_NAMES * 2)})
    assert len(samples._values) == MAX_NAMES


def test_counts_become_rates_and_one_that_began_anew_says_nothing() -> None:
    samples = Samples()
    for now_s, value in ((0.0, 0.0), (5.0, 50.0), (10.0, 3.0), (20.0, 23.0)):
        samples.take(now_s, {"records": value})
    samples.take(25.0, {})
    assert samples.rates_of("records") == ([5, 10, 20, 25], [[10.0, None, 2.0, None]])
