"""A pipeline that ends with what is there is run again when it is time; its process is played."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.pipeline.jobs import connector, launching
from penstock.pipeline.jobs.connector import PipelineTask, sinks_of
from penstock.pipeline.jobs.keys import EVERY, SINKS
from penstock.work.connect.api import SourceContext
from penstock.work.connect.config import ConfigError

YAML = "source: {subscribe: a}\nsink: {topic: one}\ntrigger: available-now\n"
CONFIG = {"name": "job", "connector.class": "x", "pipeline": YAML, "checkpoint.root": "/c", SINKS: '["one"]'}


class Played:
    """What a process tells is told by the test."""

    begun: list["Played"]

    def __init__(self, _: Any, given: str, owned_until_s: Callable[[], float], listener: Any, __: Any) -> None:
        self.pid, self.exit_code, self.is_alive, self.listener = 7, 0, True, listener
        self.renewed = 0
        self.begun.append(self)

    def renew(self) -> None:
        self.renewed += 1

    async def stop(self) -> None:
        self.is_alive = False

    def end(self) -> None:
        self.listener.event({"event": "ended", "was_stopped": False})


def test_it_is_run_again_when_it_is_time_and_the_last_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(Played, "begun", [], raising=False)
    monkeypatch.setattr(launching, "GuardedProcess", Played)
    monkeypatch.setattr(connector, "LOOK_EVERY_S", 0)
    task, again = PipelineTask(), PipelineTask()
    context = SourceContext(lambda _: None, now_s=lambda: now[0])

    async def runs_at(times: list[float], one: PipelineTask) -> list[int]:
        counts = []
        for now[0] in times:
            await one.poll()
            counts.append(len(Played.begun))
        return counts

    async def play() -> None:
        await task.start({**CONFIG, EVERY: "60000"}, context)
        assert await runs_at([10, 70], task) == [1, 1], "it still runs"
        assert Played.begun[0].renewed == 2, "its guardian is told each time until when"
        Played.begun[0].end()
        assert await runs_at([71, 100, 130, 131], task) == [2, 2, 2, 2]
        Played.begun[1].end()
        now[0] = 101
        assert task.report()["again_in_s"] == 30
        assert await runs_at([102, 131], task) == [2, 3]
        assert task.report()["again_in_s"] is None
        await again.start(CONFIG, context)
        Played.begun[3].end()
        assert await runs_at([1e9], again) == [4], "without a time it is done"

    asyncio.run(play())
    assert [one.is_alive for one in Played.begun] == [False, False, True, True], "each ends before the next begins"


def test_one_that_goes_on_has_no_times() -> None:
    assert sinks_of({**CONFIG, EVERY: "60000"}) == ["one"]
    for trigger, said in (("", "one that goes on"), ("trigger: 5 seconds", "5 seconds")):
        with pytest.raises(ConfigError, match=rf"--every\) is for trigger: available-now or once, not for {said}$"):
            sinks_of({**CONFIG, EVERY: "60000", "pipeline": YAML.replace("trigger: available-now", trigger)})
