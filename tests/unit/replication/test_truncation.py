"""Where a follower cuts its log: the cases of KIP-101 and KIP-279."""

import pytest

from penstock.log.disk import Disk
from penstock.log.leader_epochs import LeaderEpochs
from penstock.replication.truncation import truncation_offset

Terms = list[tuple[int, int]]


def epochs_of(terms: Terms) -> LeaderEpochs:
    epochs = LeaderEpochs(Disk(), "nowhere")
    for epoch, start_offset in terms:
        epochs.assign(epoch, start_offset, save=False)
    return epochs


@pytest.mark.parametrize(
    ("terms", "end", "leader", "expected", "why"),
    [
        ([(1, 0), (2, 5)], 9, (2, 7), 7, "the leader's term ends earlier"),
        ([(1, 0), (2, 5)], 9, (1, 6), 5, "the leader never heard of epoch 2, and wrote more in epoch 1"),
        ([(1, 0), (2, 5)], 9, (1, 3), 3, "nor did it write as much in epoch 1"),
        ([(1, 0), (3, 5)], 9, (2, 8), 5, "both have epochs that the other lacks: ask again from the end of the older"),
        ([(1, 0)], 4, (1, 9), 4, "all that we have is the leader's"),
        ([(5, 1)], 4, (2, 3), 1, "no own epoch is as old as the leader's"),
    ],
)
def test_the_cut(terms: Terms, end: int, leader: tuple[int, int], expected: int, why: str) -> None:
    epochs = epochs_of(terms)
    offset = truncation_offset(
        *leader, own_end_for=lambda epoch: epochs.end_offset_for(epoch, end), log_end_offset=end, high_watermark=0
    )
    assert offset == expected, why


def test_a_leader_without_epochs_leaves_the_high_watermark() -> None:
    offset = truncation_offset(-1, -1, own_end_for=lambda _: (-1, -1), log_end_offset=9, high_watermark=6)
    assert offset == 6


@pytest.mark.parametrize(("leader_end", "expected"), [(5, 5), (12, 9)])
def test_without_own_epochs_the_log_is_cut_where_the_leaders_term_ends(leader_end: int, expected: int) -> None:
    offset = truncation_offset(3, leader_end, own_end_for=lambda _: (-1, -1), log_end_offset=9, high_watermark=2)
    assert offset == expected
