import asyncio

from penstock.work.connect.jobs import Kept
from penstock.work.connect.runtime.keepers import Keeper, Wanted


class Slow:
    """Something kept that ends when it is let go."""

    trace = ""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def stop(self) -> None:
        self.is_asked.set()
        await self.let_go.wait()


async def test_what_is_not_wanted_any_more_when_the_last_one_has_ended_does_not_begin() -> None:
    begun: list[Slow] = []

    def begin(_: Keeper, wanted: Wanted) -> Kept:
        begun.append(Slow())
        return begun[-1]  # type: ignore[return-value]

    keeper = Keeper("one", begin, lambda _: None)
    keeper.want(Wanted({"a": "1"}))
    while not begun:
        await asyncio.sleep(0)
    keeper.want(Wanted({"a": "2"}))
    await begun[0].is_asked.wait()
    keeper.want(None)
    begun[0].let_go.set()
    await keeper.give_up(None)
    assert len(begun) == 1
