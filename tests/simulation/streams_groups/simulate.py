"""One run from a seed: faults for a while, then none, and all must be well."""

from __future__ import annotations

from functools import partial

from tests.simulation.streams_groups.clients import Client
from tests.simulation.streams_groups.world import World

HEALS_IN_MS = 60_000


def simulate(seed: int) -> World:
    """Raises `ViolationError`."""
    world = World(seed)
    Client.made = 0
    processes = (("p1", None), ("p2", "i1"), ("p3", None), ("p1", None), ("p2", "i2"))
    clients = [Client(world, *one) for one in processes[: world.random.choice((2, 3, 5))]]
    for client in clients:
        world.after(world.random.randrange(1, 3_000), partial(_start, client))
    while world.has_faults:
        world.run(world.random.randrange(200, 1_500))
        _something_happens(world, clients)
    world.run(1)
    for client in clients:
        if not client.is_running and world.random.random() < 0.7:
            _start(client)
    world.run(HEALS_IN_MS)
    world.check_healed()
    return world


def _start(client: Client) -> None:
    if not client.is_running:
        client.start()


def _something_happens(world: World, clients: list[Client]) -> None:
    what = world.random.randrange(24)
    if what < 2:
        if world.shard is not None:
            (world.kill, world.hand_over)[what]()
    elif what == 2:
        world.grow("a", 1)
    elif what == 3:
        world.remove(world.random.choice("rc"))
    else:
        _something_happens_to(world.random.choice(clients), what)


def _something_happens_to(client: Client, what: int) -> None:
    if not client.is_running:
        if what < 12:
            client.start()
    elif what in (4, 5):
        client.die()
    elif what in (6, 7):
        client.leave()
    elif what == 8:
        client.pause()
    elif what == 9:
        client.choose_topics()
