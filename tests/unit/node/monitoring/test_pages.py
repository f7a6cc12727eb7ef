"""A page is made once for all who ask, told again for a while, and made anew after an error."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from penstock.node.monitoring.pages import AGAIN, Pages


class Making:
    def __init__(self) -> None:
        self.made = 0
        self.now_s = 100.0
        self.costs_s = 0.5
        self.may_end = asyncio.Event()
        self.pages = Pages(self.make, lambda: self.now_s)

    async def make(self, is_open: bool) -> bytes:
        self.made += 1
        await self.may_end.wait()
        self.now_s += self.costs_s
        return f"page {self.made} {is_open}".encode()

    async def failing(self, is_open: bool) -> bytes:
        self.now_s += self.costs_s
        raise ValueError("late")


async def test_fifty_at_once_get_one_page() -> None:
    making = Making()
    asking = [asyncio.ensure_future(making.pages.page(is_open=False, is_packed=False)) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()
    making.may_end.set()
    assert set(await asyncio.gather(*asking[1:])) == {b"page 1 False"}
    assert making.made == 1


async def test_a_page_is_told_again_for_as_long_as_makes_it_a_tenth_of_the_time() -> None:
    making = Making()
    making.may_end.set()
    first = await making.pages.page(is_open=False, is_packed=False)
    making.now_s += AGAIN * making.costs_s - 0.01
    assert await making.pages.page(is_open=False, is_packed=False) is first
    making.now_s += 0.02
    assert await making.pages.page(is_open=False, is_packed=False) == b"page 2 False"


async def test_a_packed_page_is_the_plain_one() -> None:
    making = Making()
    making.may_end.set()
    plain = await making.pages.page(is_open=True, is_packed=False)
    assert gzip.decompress(await making.pages.page(is_open=True, is_packed=True)) == plain == b"page 1 True"


async def test_an_error_is_told_and_not_kept() -> None:
    making = Making()
    making.may_end.set()
    making.pages._make = failing
    with pytest.raises(ValueError, match="once"):
        await making.pages.page(is_open=False, is_packed=True)
    making.pages._make = making.make
    assert (await making.pages.page(is_open=False, is_packed=False)).startswith(b"page 1")


async def failing(is_open: bool) -> bytes:
    raise ValueError("once")


async def test_a_page_whose_making_was_cancelled_is_made_anew() -> None:
    making = Making()
    asking = asyncio.ensure_future(making.pages.page(is_open=False, is_packed=False))
    await asyncio.sleep(0)
    _, page = making.pages._made[False, False]
    page.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert making.pages._made == {}
    making.may_end.set()
    assert await making.pages.page(is_open=False, is_packed=False) == b"page 1 False"


async def test_what_failed_is_made_anew_however_long_it_took() -> None:
    making = Making()
    making.may_end.set()
    making.pages._make = making.failing
    with pytest.raises(ValueError, match="late"):
        await making.pages.page(is_open=True, is_packed=False)
    assert making.pages._made == {}
    making.pages._make = making.make
    assert await making.pages.page(is_open=True, is_packed=False) == b"page 1 True"
