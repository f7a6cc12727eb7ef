"""One run from a seed."""

from tests.simulation.transactions.clients import Client
from tests.simulation.transactions.two_phases import Store, TwoPhaseClient
from tests.simulation.transactions.world import World

from penstock.coordinator.transaction.transaction import RAISES_EPOCHS

STEPS = 1_200


def simulate(seed: int, version: int, *, steps: int = STEPS, changes: bool = False, two_phases: bool = False) -> World:
    """Raises `ViolationError`. `changes`: transaction.version is raised and lowered meanwhile. `two_phases`: two
    producers take part in transactions that are decided elsewhere.
    """
    world = World(seed, version)
    Client.transactions = 0
    clients: list[Client] = [Client(world, name) for name in ("a", "a", "b")]
    store = Store()
    others = [TwoPhaseClient(world, "two", store) for _ in range(2)] if two_phases else []
    clients += others
    for number in range(steps):
        if changes and number % 300 == 299:
            world.set_version(world.random.randrange(3))
        world.step(clients)
    world.heal()
    for one in others[:1]:
        world.set_version(RAISES_EPOCHS)  # below, none of them begins
        one.settle()
        world.heal()
    world.check()
    world.carried_out = store.carried_out
    return world
