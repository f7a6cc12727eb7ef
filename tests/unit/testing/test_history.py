"""Each anomaly is found, and nothing else is."""

import pytest

from penstock.testing.history import History, Outcome

P = ("t", 0)
ACKED, REFUSED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def good() -> History:
    """Three records, each acknowledged and read once, by one consumer."""
    history = History()
    for offset in range(3):
        history.sent("p", P, f"v{offset}", ACKED, offset=offset)
        history.polled("c", P, offset, f"v{offset}")
    return history


def kinds(history: History) -> list[str]:
    return [anomaly.kind for anomaly in history.anomalies()]


def test_a_good_history_has_no_anomaly() -> None:
    history = good()
    history.sent("p", P, "never written", REFUSED)
    history.sent("p", P, "perhaps written", UNKNOWN)
    history.polled("another", P, 0, "v0")
    history.polled("another", P, 1, "v1")
    assert history.anomalies() == []


def test_offsets_that_hold_no_record_may_be_passed_over() -> None:
    history = good()
    history.sent("p", P, "v9", ACKED, offset=9)
    history.polled("c", P, 9, "v9")
    assert history.anomalies() == []


@pytest.mark.parametrize("offset", [1, 3])
def test_two_values_at_one_offset(offset: int) -> None:
    history = good()
    history.polled("c", P, 3, "v3")
    history.polled("other", P, offset, "else")
    assert kinds(history) == ["inconsistent offset"]
    assert str(history.anomalies()[0]) == f"inconsistent offset: t-0 offset {offset} is 'v{offset}' and 'else'"


def test_an_acknowledgement_at_an_offset_of_another_record() -> None:
    history = good()
    history.sent("q", P, "v2'", ACKED, offset=1)
    assert kinds(history) == ["inconsistent offset", "lost write"]


def test_a_lost_write() -> None:
    history = good()
    history.polled("c", P, 4, "v4")
    history.sent("p", P, "v3", ACKED, offset=3)
    assert kinds(history) == ["lost write", "skipped poll"]


def test_an_unseen_write() -> None:
    history = good()
    history.sent("p", P, "v3", ACKED, offset=3)
    assert kinds(history) == ["unseen write"]


def test_a_write_that_nobody_reads_of_a_partition_that_nobody_reads() -> None:
    history = History()
    history.sent("p", P, "v0", ACKED)
    assert kinds(history) == ["unseen write"]


def test_a_duplicate_of_an_idempotent_producer() -> None:
    history = good()
    history.polled("c", P, 3, "v1")
    assert kinds(history) == ["duplicate"]


def test_other_producers_may_write_twice() -> None:
    history = History()
    history.sent("p", P, "v", ACKED, offset=0, idempotent=False)
    history.polled("c", P, 0, "v")
    history.polled("c", P, 1, "v")
    assert history.anomalies() == []


def test_an_aborted_read() -> None:
    history = good()
    history.sent("p", P, "v3", REFUSED)
    history.polled("c", P, 3, "v3")
    assert kinds(history) == ["aborted read"]


def test_a_skipped_poll() -> None:
    history = good()
    history.polled("other", P, 0, "v0")
    history.polled("other", P, 2, "v2")
    assert kinds(history) == ["skipped poll"]
    assert "other went from 0 to 2 in t-0, over 1" in str(history.anomalies()[0])


@pytest.mark.parametrize("offset", [1, 2])
def test_a_poll_that_goes_back(offset: int) -> None:
    history = good()
    history.polled("c", P, offset, f"v{offset}")
    assert kinds(history) == ["non-monotonic poll"]


def test_a_consumer_that_was_moved_may_go_anywhere() -> None:
    history = good()
    history.moved("c", P)
    history.polled("c", P, 0, "v0")
    assert history.anomalies() == []


def test_across_a_restart_a_group_goes_on_where_it_committed() -> None:
    history = good()
    history.moved("next", P, 1)
    history.polled("next", P, 1, "v1")
    assert history.anomalies() == []


def test_across_a_restart_a_record_is_skipped() -> None:
    history = good()
    history.moved("next", P, 1)
    history.polled("next", P, 2, "v2")
    assert kinds(history) == ["skipped poll"]


def test_across_a_restart_a_record_is_read_again() -> None:
    history = good()
    history.moved("next", P, 2)
    history.polled("next", P, 1, "v1")
    assert kinds(history) == ["non-monotonic poll"]
