"""One run from a seed: faults for a while, then none, and what all have consumed goes."""

from tests.simulation.consumed.world import HEALS_IN_MS, SHARDS, World

GROUPS = ("a", "b", "c")


def simulate(seed: int) -> World:
    """Raises `ViolationError`."""
    world = World(seed)
    for name in GROUPS:
        world.begin_group(name)
    world.run(1_000)
    world.ask()
    while world.has_faults:
        world.run(world.random.choice((20, 100, 1_000)))
        _something_happens(world)
    for name in GROUPS:
        world.commit(name, world.high_watermark)
    world.stable = world.high_watermark
    world.run(HEALS_IN_MS)
    world.check_healed()
    return world


def _something_happens(world: World) -> None:
    what, name = world.random.randrange(16), world.random.choice(GROUPS)
    known = world.truth.get(name)
    if what < 4:
        world.write()
    elif what == 4:
        world.move(world.random.randrange(SHARDS))
        if known is not None:
            _step_back(world, name, known)
    elif what == 5 and known is not None:
        _step_back(world, name, known)
    elif what == 6 and world.random.random() < 0.2:
        world.delete(name)
    elif what < 10:
        for group in GROUPS:
            world.commit(group, world.high_watermark)
    elif known is None or known < world.high_watermark:
        world.commit(name, world.random.randint(known or world.log_start, world.high_watermark))


def _step_back(world: World, name: str, known: int) -> None:
    world.commit(name, max(world.log_start, known - world.random.randrange(1, 20)))
