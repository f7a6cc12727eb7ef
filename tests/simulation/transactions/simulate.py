"""One run from a seed."""

from tests.simulation.transactions.clients import Client
from tests.simulation.transactions.world import World

STEPS = 1_200


def simulate(seed: int, version: int, *, steps: int = STEPS, changes: bool = False) -> World:
    """Raises `ViolationError`. `changes`: transaction.version is raised and lowered meanwhile."""
    world = World(seed, version)
    Client.transactions = 0
    clients = [Client(world, name) for name in ("a", "a", "b")]
    for number in range(steps):
        if changes and number % 300 == 299:
            world.set_version(world.random.randrange(3))
        world.step(clients)
    world.heal()
    world.check()
    return world
