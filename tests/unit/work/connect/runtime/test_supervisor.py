import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import pytest
from tests.stand_in import stand_in

from penstock.client.errors import ConnectionFailedError
from penstock.client.providers import Resolved
from penstock.work.connect.runtime import supervisor as module
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.supervisor import KEPT_FAILURES, Attempt, RunState, Supervisor


class Slow:
    """Something that runs, and ends when it is let go."""

    def __init__(self, config: Mapping[str, str], attempt: Attempt) -> None:
        self.config = config
        self.attempt = attempt
        self.let_go = asyncio.Event()

    async def run(self) -> None:
        self.attempt.begun()
        await self.let_go.wait()
        if self.config.get("fails"):
            raise ValueError("it fails")


class Supervised(Supervisor[Slow]):
    def __init__(self, patience_s: float = 60.0, lives_ms: Sequence[int] = ()) -> None:
        """What is looked up is good for so long, one run after the other, and then for ever."""
        super().__init__("one", patience_s)
        self.lives_ms = list(lives_ms)
        self.made: list[Slow] = []
        self.told: list[tuple[RunState, str]] = []
        self.news = asyncio.Event()

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        return Resolved({**config, "looked": "up"}, self.lives_ms.pop(0) if self.lives_ms else None)

    def make(self, config: Mapping[str, str], attempt: Attempt) -> Slow:
        self.made.append(Slow(config, attempt))
        return self.made[-1]

    def tell(self, state: RunState, trace: str = "") -> None:
        self.told.append((state, trace.partition("\n")[0]))
        self.news.set()

    async def until_told(self, count: int) -> None:
        while len(self.told) < count:
            self.news.clear()
            await self.news.wait()


async def test_what_is_not_wanted_any_more_when_the_last_one_has_ended_does_not_begin() -> None:
    supervisor = Supervised()
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    supervisor.want({"a": "2"})
    await supervisor.made[0].attempt.stopping.wait()
    supervisor.want(None)
    supervisor.made[0].let_go.set()
    await supervisor.give_up()
    assert len(supervisor.made) == 1


async def test_what_fails_is_started_again_while_it_has_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_RESTART_S", 0)
    supervisor = Supervised()
    supervisor.want({"fails": "yes", "task.restarts.max": "1"})
    for life in range(2):
        await supervisor.until_told(2 * life + 1)
        supervisor.made[life].let_go.set()
    await supervisor.until_told(4)
    assert [run.attempt.failures for run in supervisor.made] == [(), ("ValueError: it fails",)]
    await supervisor.give_up(RunState.UNASSIGNED)
    assert supervisor.told == [
        (RunState.RUNNING, ""),
        (RunState.FAILED, "ValueError: it fails; it is started again in 0 s"),
        (RunState.RUNNING, ""),
        (RunState.FAILED, "ValueError: it fails; it is not started again"),
        (RunState.UNASSIGNED, ""),
    ]


class Talkative(Supervised):
    """What it runs tells all it has got."""

    def look_up(self, config: Mapping[str, str]) -> Resolved:
        if config["looked.up"] == "no":
            raise ValueError(f"to={config['to']}")
        return Resolved({**config, "looked.up": "s3same"}, looked_up={"${file:it}": "s3same"})

    def make(self, config: Mapping[str, str], attempt: Attempt) -> Slow:
        raise ValueError(f"{config['to']} and {config['looked.up']}, {attempt.discreet('of s3same')}")

    def tell(self, state: RunState, trace: str = "") -> None:
        super().tell(state, trace)
        self.whole = trace


@pytest.mark.parametrize(
    ("looked_up", "words"),
    [("${file:it}", "[hidden] and ${file:it}, of ${file:it}"), ("no", "to=[hidden]")],
)
async def test_no_secret_of_the_configuration_is_told(looked_up: str, words: str) -> None:
    supervisor = Talkative()
    supervisor.want({"task.restarts.max": "0", "to": "https://ada:l0velace@host", "looked.up": looked_up})
    await supervisor.until_told(1)
    await supervisor.give_up()
    assert supervisor.told == [(RunState.FAILED, f"ValueError: {words}; it is not started again")]
    assert "Traceback" in supervisor.whole
    assert not any(secret in supervisor.whole for secret in ("l0velace", "s3same"))


async def test_what_begins_as_it_ends_does_not_say_that_it_runs() -> None:
    supervisor = Supervised()
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    ending = asyncio.create_task(supervisor.give_up(RunState.UNASSIGNED))
    await supervisor.made[0].attempt.stopping.wait()
    supervisor.made[0].attempt.begun()
    supervisor.made[0].let_go.set()
    await ending
    assert supervisor.told == [(RunState.RUNNING, ""), (RunState.UNASSIGNED, "")]


async def test_what_goes_on_for_long_is_said_beside_how_it_is() -> None:
    supervisor = Supervised()
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    for words in ("it waits", ""):
        supervisor.made[0].attempt.lasts(words)
    supervisor.made[0].let_go.set()
    await supervisor.give_up()
    assert supervisor.told == [(RunState.RUNNING, words) for words in ("", "it waits", "")]


async def test_what_was_left_behind_says_nothing_any_more() -> None:
    supervisor = Supervised(patience_s=0)
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    supervisor.want({"a": "2"})
    await supervisor.until_told(2)
    supervisor.made[0].attempt.begun()
    supervisor.made[0].attempt.lasts("it waits")
    await supervisor.give_up()
    supervisor.made[1].attempt.lasts("it waits")
    assert supervisor.told == [(RunState.RUNNING, ""), (RunState.RUNNING, "")]


async def test_what_was_looked_up_for_a_while_is_looked_up_again() -> None:
    supervisor = Supervised(lives_ms=[0])
    supervisor.want({"a": "${short:lived}"})
    while not supervisor.made:
        await supervisor.until_told(len(supervisor.told) + 1)
    await supervisor.made[0].attempt.stopping.wait()
    supervisor.made[0].let_go.set()
    while len(supervisor.made) < 2:
        await supervisor.until_told(len(supervisor.told) + 1)
    assert supervisor.made[1].config == {"a": "${short:lived}", "looked": "up"}
    assert supervisor.made[1].attempt.written == {"a": "${short:lived}"}
    supervisor.made[1].let_go.set()
    await supervisor.give_up()


async def test_nothing_is_looked_up_again_where_that_is_not_wanted() -> None:
    supervisor = Supervised(lives_ms=[0])
    supervisor.want({"config.action.reload": "none"})
    await supervisor.until_told(1)
    supervisor.made[0].let_go.set()
    await supervisor.give_up()
    assert [state for state, _ in supervisor.told] == [RunState.RUNNING]


class Stubborn(Slow):
    """Fails when it is cancelled."""

    async def run(self) -> None:
        self.attempt.begun()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            raise ValueError("not like this") from None


async def test_what_was_left_behind_for_a_pause_does_not_say_how_it_fails() -> None:
    class Left(Supervised):
        def make(self, config: Mapping[str, str], attempt: Attempt) -> Slow:
            self.made.append(Stubborn(config, attempt))
            return self.made[-1]

    supervisor = Left(patience_s=0)
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    (life,) = (task for task in asyncio.all_tasks() if task.get_name() == "one")
    supervisor.want({"a": "1"}, Target.PAUSED)
    await supervisor.until_told(2)
    await asyncio.wait([life])
    await supervisor.give_up()
    assert supervisor.told == [(RunState.RUNNING, ""), (RunState.PAUSED, "")]


async def test_a_pause_ends_what_runs_and_says_so_and_a_stop_as_well() -> None:
    supervisor = Supervised()
    for number, target in enumerate((Target.PAUSED, Target.STOPPED)):
        supervisor.want({"a": "1"})
        await supervisor.until_told(2 * number + 1)
        supervisor.want({"a": "1"}, target)
        await supervisor.made[number].attempt.stopping.wait()
        supervisor.made[number].let_go.set()
        await supervisor.until_told(2 * number + 2)
        assert supervisor.current is None
    await supervisor.give_up()
    assert [state for state, _ in supervisor.told] == [
        *(RunState.RUNNING, RunState.PAUSED),
        *(RunState.RUNNING, RunState.STOPPED),
    ]


async def test_a_restart_is_told_and_begins_anew() -> None:
    supervisor = Supervised()
    supervisor.restart()
    assert supervisor.told == [(RunState.RESTARTING, "")]
    supervisor.want({"a": "1"})
    await supervisor.until_told(2)
    supervisor.restart()
    await supervisor.made[0].attempt.stopping.wait()
    supervisor.made[0].let_go.set()
    await supervisor.until_told(4)
    assert len(supervisor.made) == 2
    supervisor.made[1].let_go.set()
    await supervisor.give_up()


async def test_what_was_looked_up_for_a_run_that_is_over_is_not_looked_up_again() -> None:
    supervisor = Supervised()
    supervisor.want({"a": "1"})
    await supervisor.until_told(1)
    first = supervisor._stopping
    supervisor.want({"a": "1"}, Target.PAUSED)
    supervisor.made[0].let_go.set()
    await supervisor.until_told(2)
    supervisor._begin_again(first)
    supervisor.want({"a": "1"})
    await supervisor.until_told(3)
    supervisor._begin_again(first)
    supervisor.made[1].let_go.set()
    await supervisor.give_up()
    assert [state for state, _ in supervisor.told] == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING]


class Failing(Slow):
    """Fails as soon as it has begun, after so many seconds."""

    def __init__(self, config: Mapping[str, str], attempt: Attempt, fails: Callable[[], Exception]) -> None:
        super().__init__(config, attempt)
        self._fails = fails

    async def run(self) -> None:
        raise self._fails()


class Lives:
    """One life after the other, each with its length and its error; pauses are noted, and the clock goes on by both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lives: tuple[float, Exception]) -> None:
        self.now_s = 1_000.0
        self.pauses: list[float] = []
        self._lives = list(lives)
        loop = SimpleNamespace(time=lambda: self.now_s)
        monkeypatch.setattr(module, "asyncio", stand_in(asyncio, get_running_loop=lambda: loop))
        monkeypatch.setattr(module, "pause", self._pause)

    async def _pause(self, stopping: asyncio.Event, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self._lives:
            stopping.set()

    def next(self) -> Exception:
        lasts_s, error = self._lives.pop(0)
        self.now_s += lasts_s
        return error

    async def of(self, restarts: str) -> "Supervised":
        lives = self

        class Short(Supervised):
            def make(self, config: Mapping[str, str], attempt: Attempt) -> Slow:
                self.made.append(Failing(config, attempt, lives.next))
                return self.made[-1]

        supervisor = Short()
        supervisor.want({"task.restarts.max": restarts})
        await asyncio.sleep(0)
        while supervisor._life is None or not supervisor._life.done():
            await asyncio.sleep(0)
        await supervisor.give_up()
        return supervisor


BAD, AWAY = ValueError("bad"), ConnectionFailedError("away")


@pytest.mark.parametrize(
    ("restarts", "lives", "pauses"),
    [
        ("0", [(0, BAD)], []),
        ("2", [(0, BAD)] * 3, [1, 2]),
        ("9", [(0, BAD)] * 10, [1, 2, 4, 8, 16, 32, 60, 60, 60]),
        ("many", [(0, BAD)], []),
        ("1", [(599, BAD)] * 2, [1]),
        ("1", [(600, BAD)] * 4, [1, 1, 1, 1]),
        ("1", [(0, BAD), (600, BAD), (0, BAD)], [1, 1]),
        ("0", [(0, AWAY)] * 4, [1, 2, 4, 8]),
        ("1", [(0, AWAY), (0, BAD), (0, AWAY), (0, BAD)], [1, 2, 4]),
    ],
)
async def test_pauses_between_lives_grow_until_one_was_long(
    monkeypatch: pytest.MonkeyPatch, restarts: str, lives: list[tuple[float, Exception]], pauses: list[float]
) -> None:
    """A cluster that cannot be reached costs no restart."""
    played = Lives(monkeypatch, *lives)
    supervisor = await played.of(restarts)
    assert played.pauses == pauses
    ends = len(pauses) < len(lives)
    words = [f"it is started again in {seconds} s" for seconds in pauses] + ["it is not started again"] * ends
    said = [f"{type(error).__name__}: {error}; {word}" for (_, error), word in zip(lives, words, strict=True)]
    assert supervisor.told == [(RunState.FAILED, one) for one in said]
    runs = [run.attempt.failed_runs for run in supervisor.made]
    assert runs == list(range(len(lives)))
    last = [f"{type(error).__name__}: {error}" for _, error in lives]
    assert [run.attempt.failures for run in supervisor.made] == [
        tuple(last[max(0, number - KEPT_FAILURES) : number]) for number in range(len(lives))
    ]
