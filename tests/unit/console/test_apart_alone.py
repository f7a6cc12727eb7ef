"""What the process apart answers to each question, asked in this process; and what it asks of the system meanwhile."""

from __future__ import annotations

import io
import json
import pickle
import signal
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.console.apart import __main__ as apart
from penstock.console.apart.decoding import Encode, encoder_of
from penstock.console.apart.frames import LENGTH_BYTES, Begin, Learn, Look, Make, Question, Raw, packed, read_question
from penstock.console.apart.schema import AVRO, KnownSchema

LONG = KnownSchema(7, AVRO, b'"long"')
OTHER = KnownSchema(8, AVRO, b'"string"')
HEAD = b"\0\0\0\0\x07"


def raw(key: bytes | None, value: bytes | None, *schemas: int | None, headers: Any = ()) -> Raw:
    return Raw("t", 3, 5, 9, key, value, list(headers), (schemas[0], schemas[1]) if schemas else (None, None))


def asked(process: apart.Apart, question: Question) -> list[dict[str, Any]]:
    return list(process.answers(question))


def test_records_without_an_expression_match_and_have_what_schemas_made_of_them() -> None:
    process = apart.Apart()
    assert asked(process, Begin("")) == [{}]
    assert asked(process, Learn(LONG)) == []
    records = [
        raw(b"k", HEAD + b"\x02", None, 7),
        raw(HEAD + b"\xd0\x0f", None, 7, None),
        raw(HEAD, HEAD + b"\x04", 7, 7),
        raw(None, None, None, 7),
    ]
    one, thousand, bad, nothing = asked(process, Look(records, 3))
    assert one == {"matches": True, "key": None, "value": {"text": "1", "size": 1, "cut": False}, "problem": None}
    cut = {"text": "100", "size": 4, "cut": True}
    assert thousand == {"matches": True, "key": cut, "value": None, "problem": None}
    assert (bad["matches"], bad["key"], bad["value"]) == (True, None, {"text": "2", "size": 1, "cut": False})
    assert bad["problem"]
    assert nothing == {"matches": True, "key": None, "value": None, "problem": None}


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("key == 'k'", True),
        ("value == `1`", True),
        ("value == `2`", False),
        ("topic == 't' && partition == `3` && offset == `5` && timestamp == `9`", True),
        ("headers.h == 'x' && headers.i == 'ff' && headers.j == null", True),
        ("headers.h == 'y'", False),
    ],
)
def test_an_expression_sees_all_of_a_record(expression: str, matches: bool) -> None:
    process = apart.Apart()
    assert asked(process, Begin(expression)) == [{}]
    asked(process, Learn(LONG))
    headers = [("h", b"x"), ("i", b"\xff"), ("j", None)]
    (answer,) = asked(process, Look([raw(b"k", HEAD + b"\x02", None, 7, headers=headers)], 100))
    shown = {"key": None, "value": {"text": "1", "size": 1, "cut": False}, "problem": None}
    assert answer == ({"matches": True, **shown} if matches else {"matches": False})


def test_letters_stay_as_they_are() -> None:
    process = apart.Apart()
    asked(process, Learn(OTHER))
    data = b"\0\0\0\0\x08" + b"\x04" + "ä".encode()
    (answer,) = asked(process, Look([raw(None, data, None, 8)], 9))
    assert answer["value"] == {"text": '"ä"', "size": 3, "cut": False}


def test_what_an_expression_cannot_be_asked_of_is_no_match_and_says_why() -> None:
    process = apart.Apart()
    (problem,) = asked(process, Begin("value."))
    assert set(problem) == {"problem"}
    asked(process, Begin("length(value) > `1`"))
    (unfit, fits) = asked(process, Look([raw(None, b"7"), raw(None, b"[1, 2]")], 9))
    assert (unfit["matches"], set(unfit), len(unfit["unfit"]) <= 500) == (False, {"matches", "unfit"}, True)
    assert fits == {"matches": True, "key": None, "value": None, "problem": None}


@pytest.mark.parametrize("expression", ["", "key == 'k'"])
def test_memory_that_is_out_is_told(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    def out(*_: object) -> None:
        raise MemoryError

    process = apart.Apart()
    asked(process, Begin(expression))
    monkeypatch.setattr(process, "_texts", out)
    assert process.seen(raw(b"k", b""), 9) == {"matches": not expression, "problem": apart.TOO_MUCH}


def test_values_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def noted(schema: KnownSchema) -> Encode:
        made.append(schema.number)
        return encoder_of(schema)

    monkeypatch.setattr(apart, "encoder_of", noted)
    process = apart.Apart()
    one, two, bad = asked(process, Make(LONG, ["1", "2", '"x"']))
    assert (one, two, set(bad)) == ({"data": "AAAAAAcC"}, {"data": "AAAAAAcE"}, {"problem"})
    assert asked(process, Make(OTHER, ['"a"'])) == [{"data": "AAAAAAgCYQ=="}]
    assert made == [7, 8], "once for each schema"


def test_a_frame_is_a_length_and_so_many_bytes() -> None:
    question = Begin("x")
    data = packed(question)
    assert int.from_bytes(data[:LENGTH_BYTES]) == len(data) - LENGTH_BYTES
    assert pickle.loads(data[LENGTH_BYTES:]) == question
    stream = io.BytesIO(data + packed(Learn(LONG)) + b"\0\0\0")
    assert [read_question(stream) for _ in range(3)] == [question, Learn(LONG), None]


def test_each_record_has_its_time_and_the_process_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    asked_of_it: tuple[Question, ...] = Begin(""), Learn(LONG), Look([raw(b"a", b"b"), raw(None, b"")], 9)
    questions = io.BytesIO(b"".join(map(packed, asked_of_it)))

    class Answers(io.BytesIO):
        def flush(self) -> None:
            told.append("sent")

    answers = Answers()
    limits = SimpleNamespace(RLIMIT_AS="memory", RLIMIT_CORE="core", setrlimit=lambda *of: told.append(of))
    monkeypatch.setattr(apart, "resource", limits)
    timers = stand_in(signal, setitimer=lambda which, seconds: told.append((which, seconds)))
    monkeypatch.setattr(apart, "signal", timers)
    streams = SimpleNamespace(stdin=SimpleNamespace(buffer=questions), stdout=SimpleNamespace(buffer=answers))
    monkeypatch.setattr(apart, "sys", streams)
    apart.main()
    one, rest = (signal.ITIMER_PROF, 1.0), (signal.ITIMER_PROF, 0)
    assert told == [
        ("memory", (512 * 1024**2, 512 * 1024**2)),
        ("core", (0, 0)),
        *(one, "sent", one, rest),
        *(one, rest),
        *(one, "sent", one, "sent", one, rest),
    ]
    found = io.BytesIO(answers.getvalue())
    said = [json.loads(found.read(int.from_bytes(found.read(LENGTH_BYTES)))) for _ in range(3)]
    matches = {"matches": True, "key": None, "value": None, "problem": None}
    assert said == [{}, matches, matches]
    assert found.read() == b""
