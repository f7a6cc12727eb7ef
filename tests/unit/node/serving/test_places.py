"""Places: so many in all and of each client, in turns, and none is lost where somebody is called off."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from random import Random

import pytest

from penstock.node.serving.places import Places


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_clients_take_turns_and_each_has_its_own_in_their_order() -> None:
    places, seen = Places(1), list[str]()

    async def go(client: str, name: str) -> None:
        async with places.of(client):
            seen.append(name)
            await turn()

    await asyncio.gather(*(go(name[0], name) for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1")))
    assert seen == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


@pytest.mark.parametrize(("client", "most"), [("a", 2), (None, 4)])
async def test_one_client_has_so_many_and_others_go_past_it(client: Hashable, most: int) -> None:
    places = Places(4, 2)
    own = [asyncio.ensure_future(places.enter(client)) for _ in range(6)]
    await turn()
    assert sum(one.done() for one in own) == most
    other = asyncio.ensure_future(places.enter("b"))
    await turn()
    assert other.done() == (most < 4)
    places.leave(client)
    await turn()
    assert sum(one.done() for one in [*own, other]) == (most + 2 if most < 4 else 5)
    for one in [*own, other]:
        one.cancel()


async def test_who_comes_back_does_not_wait_and_who_comes_next_does() -> None:
    places = Places(1)
    await places.enter("a")
    places.come_back("a")
    following = asyncio.ensure_future(places.enter("b"))
    await turn()
    places.leave("a")
    await turn()
    assert not following.done()
    places.leave("a")
    await turn()
    assert following.done()


async def test_no_place_is_lost_whenever_somebody_is_called_off() -> None:
    random, places, within = Random(7), Places(3, 2), list[Hashable]()

    async def go(client: Hashable) -> None:
        async with places.of(client):
            within.append(client)
            assert len(within) <= 3
            assert all(within.count(one) <= 2 for one in "ab")
            try:
                for _ in range(random.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                within.remove(client)

    tasks = list[asyncio.Task[None]]()
    for _ in range(500):
        tasks.append(asyncio.create_task(go(random.choice(["a", "b", None]))))
        if not random.randrange(3):
            random.choice(tasks[-10:]).cancel()
        await asyncio.sleep(0)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert (places._taken, places._held) == (0, {})
    for _ in range(3):
        await asyncio.wait_for(places.enter(None), 10)
    left = asyncio.ensure_future(places.enter("a"))
    await turn()
    assert not left.done()
    left.cancel()
