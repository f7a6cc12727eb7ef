from penstock.console.samples import APART_S, KEPT_S, MAX_NAMES, Samples


def test_values_stand_at_their_times() -> None:
    samples = Samples()
    samples.take(10.0, {"a": 1.0})
    samples.take(15.0, {"a": 2.0, "b": 7.0})
    samples.take(20.0, {"b": 8.0})
    assert samples.of("a") == ([10, 15, 20], [1.0, 2.0, None])
    assert samples.of("b") == ([10, 15, 20], [None, 7.0, 8.0])
    assert samples.of("c") == ([10, 15, 20], [None, None, None])


def test_an_hour_is_kept_and_what_is_gone_by_then_is_forgotten() -> None:
    samples = Samples()
    samples.take(0.0, {"gone": 1.0, "a": 1.0})
    samples.take(KEPT_S, {"a": 2.0})
    samples.take(KEPT_S + APART_S, {"a": 3.0})
    assert samples.of("a") == ([3600, 3605], [2.0, 3.0])
    assert list(samples._values) == ["a"]


def test_memory_has_a_limit() -> None:
    samples = Samples()
    for number in range(int(KEPT_S)):
        samples.take(float(number) * 2, {"a": 1.0})
    assert len(samples.of("a")[0]) == len(samples.of("a")[1]) <= KEPT_S / APART_S + 1
    samples = Samples()
    samples.take(1e6, {str(number): 1.0 for number in range(MAX_NAMES * 2)})
    assert len(samples._values) == MAX_NAMES


def test_a_clock_that_was_set_back_begins_anew() -> None:
    samples = Samples()
    samples.take(1_000.0, {"a": 1.0})
    samples.take(10.0, {"a": 2.0})
    assert samples.of("a") == ([10], [2.0])


def test_counts_become_rates_and_one_that_began_anew_or_was_away_says_nothing() -> None:
    samples = Samples()
    for now_s, first, second in ((0.0, 0.0, 0.0), (5.0, 50.0, 5.0), (10.0, 3.0, 10.0), (20.0, 23.0, None)):
        samples.take(now_s, {"1": first} | ({} if second is None else {"2": second}))
    samples.take(25.0, {"2": 1_000.0})
    assert samples.rates_of(["1", "2", "3"]) == [11.0, 1.0, 2.0, None]
