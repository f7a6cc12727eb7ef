"""Share partitions under thousands of events: nothing accepted comes again, nothing is lost, nothing has two owners."""

from tests.simulation.share_partitions.ordered import OrderedWorld
from tests.simulation.share_partitions.simulate import simulate

SEEDS = 80
ORDERED_SEEDS = 30


def test_seeds() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(it.accepted for it in outcomes) > 80 * SEEDS, "hardly anything is accepted"
    assert sum(it.deliveries - it.records for it in outcomes) > 80 * SEEDS, "hardly anything is delivered again"
    assert sum(it.leaders for it in outcomes) > 2 * SEEDS, "there are hardly any new leaders"
    assert sum(it.letters for it in outcomes) > 10 * SEEDS, "there are hardly any dead letters"


def test_seeds_in_the_order_of_keys() -> None:
    outcomes = [simulate(seed, OrderedWorld) for seed in range(ORDERED_SEEDS)]
    assert sum(it.accepted for it in outcomes) > 80 * ORDERED_SEEDS, "hardly anything is accepted"
    assert sum(it.deliveries - it.records for it in outcomes) > 10 * ORDERED_SEEDS, "hardly anything comes again"
