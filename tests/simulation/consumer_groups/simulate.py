"""One run from a seed: faults for a while, then none, and all must be well."""

from functools import partial

from tests.simulation.consumer_groups.classic_clients import ClassicClient
from tests.simulation.consumer_groups.clients import Client
from tests.simulation.consumer_groups.own_clients import OwnClient
from tests.simulation.consumer_groups.world import LATE_MS, World

HEALS_IN_MS = 60_000


def simulate(seed: int) -> World:
    """All members speak the consumer protocol. Raises `ViolationError`."""
    world = World(seed)
    Client.made = 0
    instances = [None, None, "i1", "i2", None]
    return _run(world, [_consumer(world, instance) for instance in instances[: world.random.choice((2, 3, 5))]])


def simulate_both(seed: int) -> World:
    """Members of both protocols: a group goes from one to the other and back. Raises `ViolationError`."""
    world = World(seed)
    Client.made = 0
    is_cooperative = world.random.random() < 0.7
    instances = (None, None, "i1")[: world.random.choice((1, 3))]
    clients = [_consumer(world, instance) for instance in instances]
    others = (None, None, "i1", "i2")[: world.random.choice((1, 3, 4))]
    clients += [ClassicClient(world, instance, is_cooperative=is_cooperative) for instance in others]
    return _run(world, clients)


def _consumer(world: World, instance_id: str | None) -> Client:
    return world.random.choice((Client, OwnClient))(world, instance_id)


def _run(world: World, clients: list[Client]) -> World:
    for client in clients:
        world.after(world.random.randrange(1, 3_000), partial(_start, client))
    while world.has_faults:
        world.run(world.random.randrange(200, 1_500))
        _something_happens(world, clients)
    world.run(1)
    for client in clients:
        if not client.is_running and world.random.random() < 0.7:
            _start(client)
    world.run(2 * LATE_MS)
    for client in clients:
        client.reconnect()
    world.run(HEALS_IN_MS)
    world.check_healed()
    return world


def _start(client: Client) -> None:
    """One process of an instance at a time."""
    others = (one for one in client.world.clients if one is not client and one.instance_id is not None)
    if not client.is_running and not any(one.instance_id == client.instance_id and one.is_running for one in others):
        client.start()


def _something_happens(world: World, clients: list[Client]) -> None:
    consumers = [client for client in clients if not client.is_classic]
    if len(consumers) < len(clients) and world.random.random() < 0.2:
        _roll(consumers)
        return
    what = world.random.randrange(24)
    if what < 2:
        if world.shard is not None:
            (world.kill, world.hand_over)[what]()
    elif what == 2:
        world.grow(world.random.choice("ab"), 1)
    elif what == 3:
        if "c" not in world.topics:
            world.grow("c", 2)
    else:
        _something_happens_to(world.random.choice(clients), what)


def _roll(consumers: list[Client]) -> None:
    """The group goes down, or up."""
    running = [client for client in consumers if client.is_running]
    for client in running:
        client.leave()
    if not running:
        _start(consumers[0])


def _something_happens_to(client: Client, what: int) -> None:
    if not client.is_running:
        if what < 12:
            _start(client)
    elif what in (4, 5):
        client.die()
    elif what in (6, 7):
        client.leave()
    elif what == 8:
        client.pause()
    elif what in (9, 10):
        client.choose_topics()
