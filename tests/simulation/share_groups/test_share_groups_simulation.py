"""Members have what has begun, and nothing that was read begins anew, whatever happens; in the end all is given out."""

import pytest
from tests.simulation.share_groups.simulate import simulate

SEEDS = 10
MORE_SEEDS = 300
KEPT = (137, 100_037, 101_215, 200_180, 200_631, 300_133)
"""A leader reads what has begun again where it was deleted, before it writes; an alteration is written until it is, and
ends only what it began; of two deletions the later one deletes nothing that has begun since; what a group of the same
name left behind stops nobody; and who has an alteration under way is answered when the coordinator goes.
"""


def test_what_has_begun_is_given_out_and_never_begins_anew() -> None:
    outcomes = [simulate(seed) for seed in (*range(SEEDS), *KEPT)]
    assert sum(outcome.fails for outcome in outcomes) > SEEDS
    assert sum(outcome.kills for outcome in outcomes) > SEEDS
    assert sum(outcome.reads for outcome in outcomes) > SEEDS


@pytest.mark.soak
def test_so_it_is_from_many_seeds() -> None:
    for seed in range(SEEDS, MORE_SEEDS):
        simulate(seed)
