import asyncio
import threading
from collections.abc import AsyncIterator, Mapping

import pytest

from penstock.client.values import ConsumedRecord
from penstock.work.connect import conversion
from penstock.work.connect.api import RetriableError, SinkRecord
from penstock.work.connect.calls import Calls
from penstock.work.connect.config import parse
from penstock.work.connect.conversion import Conversion, StageError, steps_of
from penstock.work.connect.errors import KEYS, ErrorPolicy, Failure


@pytest.fixture
async def calls() -> AsyncIterator[Calls]:
    calls = Calls("test")
    yield calls
    calls.close()


def policy(**settings: str) -> ErrorPolicy:
    return ErrorPolicy(parse(KEYS, {f"errors.{key.replace('_', '.')}": text for key, text in settings.items()}), "test")


def failing(error: Exception) -> StageError:
    return StageError(Failure("TRANSFORMATION", "t", error))


async def test_what_may_block_does_so_in_its_own_thread(calls: Calls) -> None:
    """On the event loop this would wait for itself."""
    set_by_the_loop = threading.Event()

    def step(number: int) -> tuple[int, int]:
        assert set_by_the_loop.wait(60)
        return number, threading.get_ident()

    asyncio.get_running_loop().call_soon(set_by_the_loop.set)
    found = [made async for _, made in Conversion(True, calls, policy()).of([1, 2], step) if made is not None]
    assert [number for number, _ in found] == [1, 2]
    assert {thread for _, thread in found}.isdisjoint({threading.get_ident()})


@pytest.mark.parametrize(("slice_s", "turns"), [(-1.0, 3), (60.0, 0)])
async def test_what_is_built_in_lets_others_in(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, slice_s: float, turns: int
) -> None:
    monkeypatch.setattr(conversion, "SLICE_S", slice_s)
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(0)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    found = [made async for _, made in Conversion(False, calls, policy()).of(range(4), str)]
    looking.cancel()
    assert found == ["0", "1", "2", "3"]
    assert len(seen) == turns


@pytest.mark.parametrize("may_block", [True, False])
async def test_items_stay_in_order_and_bad_ones_are_left_out(calls: Calls, may_block: bool) -> None:
    def step(number: int) -> int | None:
        if number == 1:
            raise failing(ValueError("bad"))
        return None if number == 2 else 10 * number

    conversion = Conversion(may_block, calls, policy(tolerance="all"))
    assert [pair async for pair in conversion.of(range(4), step)] == [(0, 0), (1, None), (2, None), (3, 30)]


async def test_those_before_a_bad_one_come_first(calls: Calls) -> None:
    def step(number: int) -> int:
        if number == 1:
            raise failing(ValueError("bad"))
        return number

    found = []

    async def all_of_them() -> None:
        async for item, _ in Conversion(False, calls, policy()).of(range(4), step):
            found.append(item)

    with pytest.raises(ValueError, match="bad"):
        await all_of_them()
    assert found == [0]


@pytest.mark.parametrize("may_block", [True, False])
@pytest.mark.parametrize(("limit", "ends"), [("-1", True), ("0", False)])
async def test_what_is_retriable_is_tried_again_where_it_stands(
    calls: Calls, may_block: bool, limit: str, ends: bool
) -> None:
    left, seen = {1: 3}, list[int]()

    def step(number: int) -> int:
        seen.append(number)
        if left.get(number):
            left[number] -= 1
            raise failing(RetriableError("later"))
        return number

    conversion = Conversion(may_block, calls, policy(retry_timeout=limit, retry_delay_max_ms="1", tolerance="all"))
    found = [made async for _, made in conversion.of(range(3), step)]
    assert found == ([0, 1, 2] if ends else [0, None, 2])
    assert seen == ([0, 1, 1, 1, 1, 2] if ends else [0, 1, 2])


class Anew:
    """A user's transform that makes a record of its own of each."""

    def configure(self, config: Mapping[str, str]) -> None: ...

    def apply(self, record: SinkRecord) -> SinkRecord:
        return SinkRecord(record.topic, record.partition, None, "changed", offset=record.offset)


@pytest.mark.parametrize("transforms", ["", "anew"])
def test_a_sink_can_report_any_record_as_it_lay_in_its_topic(transforms: str) -> None:
    one = ConsumedRecord("t", 1, 5, 9, b"k", b'"v"', [("h", b"1")])
    converters = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
    steps = steps_of({"transforms": transforms, "transforms.anew.type": f"{__name__}:Anew", **converters}, {})
    made = steps.from_topic(one)
    assert made is not None
    assert made.consumed is one
