"""The console's side of the process apart, with one in this process that may die, lie or say nothing."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.console import reader
from penstock.console.apart.__main__ import Apart
from penstock.console.apart.frames import Begin, Look, Make, Question, Raw, read_question
from penstock.console.apart.schema import AVRO, KnownSchema
from penstock.console.errors import ConsoleError
from penstock.console.reader import ApartReader

LONG = KnownSchema(7, AVRO, b'"long"')
NOTHING = {"matches": True, "key": None, "value": None, "problem": None}


def raw(value: bytes | None, key: bytes | None = None, headers: Sequence[bytes | None] = ()) -> Raw:
    return Raw("t", 0, 0, 0, key, value, [("h", one) for one in headers], (None, None))


class Process:
    """Answers as the real one does, but for values that say what it is to do."""

    def __init__(self, all_asked: list[Any]) -> None:
        self._apart, self._asked = Apart(), all_asked
        self.stdout, self.stdin = asyncio.StreamReader(), SimpleNamespace(write=self.write, close=self.close)
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        question = read_question(io.BytesIO(data))
        assert question is not None
        self._asked.append(question)
        for frame in self._frames(question):
            if frame is None:
                return
            self.stdout.feed_data(frame)

    def _frames(self, question: Question) -> Iterator[bytes | None]:
        told = question.records if isinstance(question, Look) else ()
        texts = question.texts if isinstance(question, Make) else ()
        for at, answer in enumerate(self._apart.answers(question)):
            what = (told[at].value or b"").decode() if told else texts[at] if texts else ""
            body = {"lie": b"[1]", "mumble": b"{", "data": b'{"data": "?"}'}.get(what, json.dumps(answer).encode())
            if what == "die":
                self.stdout.feed_eof()
                yield None
            yield None if what == "say nothing" else (2**30 if what == "shout" else len(body)).to_bytes(4) + body

    def kill(self) -> None:
        self.calls.append("kill")

    def close(self) -> None:
        self.calls.append("close")

    async def wait(self) -> int:
        self.calls.append("wait")
        return 0


class Processes:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.begun: list[Process] = []
        self.commands: list[Any] = []

    async def begin(self, *words: str, **streams: Any) -> Process:
        self.commands.append((words, streams))
        self.begun.append(Process(self.asked))
        return self.begun[-1]

    @property
    def kinds(self) -> list[str]:
        return [type(one).__name__ for one in self.asked]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    found = Processes()
    monkeypatch.setattr(reader, "asyncio", stand_in(asyncio, create_subprocess_exec=found.begin))
    return found


@pytest.fixture
async def apart() -> AsyncIterator[ApartReader]:
    async with ApartReader() as found:
        yield found


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ConsoleError, match=words) as caught:
        yield
    assert caught.value.status == status


async def test_a_process_begins_with_the_first_question_and_is_ended(processes: Processes) -> None:
    async with ApartReader() as apart:
        await apart.check()
        apart.learn(LONG)
        assert processes.begun == []
        assert await apart.look([raw(b"a"), raw(b"b")], 9) == [NOTHING] * 2
        apart.learn(LONG)
        apart.learn(LONG.replace(number=8))
        assert await apart.look([], 9) == []
        assert await apart.look([raw(b"c")], 9) == [NOTHING]
        assert processes.begun[0].calls == []
    assert processes.begun[0].calls == ["kill", "close", "wait"]
    assert processes.kinds == ["Begin", "Learn", "Look", "Learn", "Look"]
    ((words, streams),) = processes.commands
    assert words[1:] == ("-P", "-m", "penstock.console.apart")
    assert streams == {
        "stdin": asyncio.subprocess.PIPE,
        "stdout": asyncio.subprocess.PIPE,
        "stderr": asyncio.subprocess.DEVNULL,
    }
    async with ApartReader("key == 'k'") as apart:
        await apart.check()
        await apart.check()
    assert processes.asked[-1:] == [Begin("key == 'k'")]
    assert len(processes.begun) == 2


@pytest.mark.parametrize("end", ["die", "lie", "mumble", "shout"])
async def test_a_record_that_is_its_end_is_told_and_those_behind_it_are_asked_of_another(
    processes: Processes, apart: ApartReader, end: str
) -> None:
    apart.learn(LONG)
    answers = await apart.look([raw(b"a"), raw(end.encode()), raw(b"b"), raw(b"c")], 9)
    assert answers == [NOTHING, {"matches": True, "problem": reader.DIED}, NOTHING, NOTHING]
    assert processes.kinds == ["Begin", "Learn", "Look"] * 2
    assert [len(one.records) for one in processes.asked if isinstance(one, Look)] == [4, 2]
    assert [one.calls for one in processes.begun] == [["kill", "close", "wait"], []]


@pytest.mark.parametrize(("expression", "what"), [("", "their schema"), ("key == 'k'", "the expression")])
async def test_what_is_the_end_of_too_many_is_given_up(processes: Processes, expression: str, what: str) -> None:
    async with ApartReader(expression) as apart:
        answers = await apart.look([raw(b"die"), raw(b"die")], 9)
        assert answers == [{"matches": not expression, "problem": reader.DIED}] * 2
        with refused(422, f"^{what} takes more than a second, or too much memory, for each of 3 records: given up"):
            await apart.look([raw(b"a"), raw(b"die"), raw(b"b")], 9)
    assert len(processes.begun) == 3
    assert all(one.calls for one in processes.begun)


@pytest.mark.parametrize("expression", ["", "key == 'k'"])
async def test_a_record_that_is_too_large_is_not_looked_into(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    monkeypatch.setattr(reader, "LARGEST", 4)
    async with ApartReader(expression) as apart:
        answers = await apart.look([raw(b"large"), raw(b"a"), raw(b"large"), raw(b"b")], 9)
    large = {"matches": not expression, "problem": reader.TOO_LARGE}
    small = {"matches": False} if expression else NOTHING
    assert answers == [large, small, large, small]


async def test_an_expression_that_cannot_be_read_is_told(processes: Processes) -> None:
    async with ApartReader("value.") as apart:
        with refused(400, "^the expression cannot be read: "):
            await apart.check()


async def test_one_that_does_not_begin_says_so(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "_frames", lambda *_: iter([b"\0\0\0\2[]"]))
    async with ApartReader("a") as apart:
        with refused(400, "^the expression takes too long to read"):
            await apart.check()
    async with ApartReader() as apart:
        with refused(503, reader.NOT_BEGUN):
            await anext(apart.make(LONG, ["1"]))


async def test_values_are_made_and_the_process_goes_on_where_all_were_taken(
    processes: Processes, apart: ApartReader
) -> None:
    assert [one async for one in apart.make(LONG, ["1", "2"])] == [b"\0\0\0\0\x07\x02", b"\0\0\0\0\x07\x04"]
    assert [one async for one in apart.make(LONG, [])] == []
    assert processes.begun[0].calls == []
    made = apart.make(LONG, ["1", "2"])
    await anext(made)
    await made.aclose()
    assert processes.begun[0].calls == ["kill", "close", "wait"], "what it still says is no answer to another question"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [('"x"', 400, "^it is no value of schema 7: "), ("die", 400, reader.DIED), ("data", 400, reader.DIED)],
)
async def test_what_cannot_be_made_ends_it(
    processes: Processes, apart: ApartReader, text: str, status: int, words: str
) -> None:
    made = apart.make(LONG, ["1", text, "2"])
    assert await anext(made) == b"\0\0\0\0\x07\x02"
    with refused(status, words):
        await anext(made)
    assert processes.begun[0].calls == ["kill", "close", "wait"]


async def test_one_that_says_nothing_is_not_waited_for(
    processes: Processes, apart: ApartReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apart.look([raw(b"a")], 9)
    monkeypatch.setattr(reader, "ANSWER_S", 0.0)
    with refused(503, "^nothing was made of it within 20 s: this machine has other things to do"):
        await anext(apart.make(LONG, ["say nothing"]))


async def test_one_that_has_gone_by_itself_is_ended_all_the_same(
    processes: Processes, apart: ApartReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Process) -> None:
        raise ProcessLookupError

    await apart.look([raw(b"a")], 9)
    monkeypatch.setattr(Process, "kill", gone)
    await apart._end()
    await apart._end()
    assert processes.begun[0].calls == ["close", "wait"]


@pytest.mark.parametrize(
    ("records", "taken"),
    [
        ([], 0),
        ([raw(b"x" * 5)], 1),
        ([raw(b"x" * 6)], 0),
        ([raw(None, b"x" * 5)], 1),
        ([raw(None, b"x" * 6)], 0),
        ([raw(None, None, [b"xxx", b"xx", None])], 1),
        ([raw(None, None, [b"xxx", b"xxx"])], 0),
        ([raw(b"xx", b"xx", [b"xx"])], 0),
        ([raw(b"xx"), raw(b"xx"), raw(b"xx"), raw(b"xx"), raw(b"x")], 4),
        ([raw(b"xxx"), raw(b"xxxxx")], 2),
        ([raw(b"xxxx"), raw(b"xxxxx"), raw(b"")], 1),
        ([raw(b"x"), raw(b"x" * 6), raw(b"x")], 1),
        ([raw(None)] * 9, 9),
    ],
    ids=range(13),
)
def test_so_much_is_told_at_once(monkeypatch: pytest.MonkeyPatch, records: list[Raw], taken: int) -> None:
    monkeypatch.setattr(reader, "LARGEST", 5)
    monkeypatch.setattr(reader, "TOLD_AT_ONCE", 8)
    assert reader._part(records) == records[:taken]
