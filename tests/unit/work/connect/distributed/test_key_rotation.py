"""The leader's session keys: when one is written, how long it is, and what is left where another one leads."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.work.connect.distributed import key_rotation
from penstock.work.connect.distributed.key_rotation import RETRY_S, KeyRotation
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.logs import NotLeadingError

HOUR_S = 3_600


class World:
    """A leader that writes what it is asked to, until it has slept so often; its sleep is its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sleeps: int) -> None:
        self.leads = True
        self.state = ConfigState()
        self.now_s = 1_000_000.0
        self.slept: list[float] = []
        self.written: list[float] = []
        self.fails = 0
        self._sleeps = sleeps
        monkeypatch.setattr(key_rotation, "asyncio", stand_in(asyncio, sleep=self._sleep))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        self.leads = len(self.slept) < self._sleeps

    async def write_if(self, is_still_so: Callable[[], bool], rows: Mapping[str, bytes | None]) -> None:
        if self.fails:
            self.fails -= 1
            raise NotLeadingError("not now")
        if is_still_so():
            self.written.append(self.now_s)
            for key, value in rows.items():
                self.state.apply(key, value)
            assert not is_still_so()

    def rotation(self, **settings: Any) -> KeyRotation:
        named = {
            "inter.worker.key.generation.algorithm": "HmacSHA512",
            "inter.worker.key.size": None,
            "inter.worker.key.ttl.ms": HOUR_S * 1000,
        } | {f"inter.worker.key.{name.replace('_', '.')}": value for name, value in settings.items()}
        return KeyRotation(self.state, cast("Any", self), named, lambda: round(self.now_s * 1000))


@pytest.mark.parametrize(
    ("settings", "size"),
    [({}, 64), ({"size": 128}, 16), ({"generation_algorithm": "HmacSHA256"}, 32), ({"size": 256}, 32)],
)
async def test_a_key_is_written_when_the_last_one_is_over(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], size: int
) -> None:
    world = World(monkeypatch, 3)
    await world.rotation(**settings)._rotate()
    assert world.slept == [HOUR_S] * 3
    assert world.written == [1_000_000.0 + number * HOUR_S for number in range(3)]
    newest, older = world.state.session_keys
    assert newest.created_ms - older.created_ms == HOUR_S * 1000
    assert {len(base64.b64decode(key.text.text)) for key in (newest, older)} == {size}
    assert newest.algorithm == settings.get("generation_algorithm", "HmacSHA512")
    assert newest.text != older.text


async def test_what_cannot_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 3)
    world.fails = 2
    await world.rotation()._rotate()
    assert world.slept == [RETRY_S, RETRY_S, HOUR_S]
    assert len(world.written) == 1


async def test_a_key_that_another_leader_wrote_is_good_for_the_rest_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 1)
    await world.rotation()._rotate()
    world.now_s -= HOUR_S - 600
    world.leads, world.slept = True, []
    await world.rotation()._rotate()
    assert (world.slept, len(world.written)) == ([HOUR_S - 600], 1)


async def test_only_who_leads_looks_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)
    rotation = world.rotation()
    world.leads = False
    rotation.look()
    assert list(rotation._under_way) == []
    world.leads = True
    rotation.look()
    rotation.look()
    (under_way,) = rotation._under_way
    await asyncio.wait([under_way])
    assert len(world.written) == 1
    await asyncio.sleep(0)
    world.leads = True
    rotation.look()
    await rotation.stop()
    assert len(world.written) == 1, "it was stopped before it began"
