"""The console's side of a process apart: it is begun with the first question, and again where a record was its end."""

import asyncio
import base64
import binascii
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from penstock.console.apart.frames import LENGTH_BYTES, MOST_ANSWERED, Begin, Learn, Look, Make, Question, Raw, packed
from penstock.console.apart.schema import KnownSchema
from penstock.console.errors import ConsoleError, bad_request

ANSWER_S: Final = 20.0
"""On a machine that has other things to do: processor time is limited where it is spent."""
MAX_DEATHS: Final = 3
LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a record that is looked into."""
TOLD_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of records that are on their way together."""
TOO_LARGE: Final = f"it is larger than {LARGEST // 1024**2} MiB, and was not looked into"
DIED: Final = "it takes more than a second of processor time, or the memory there is"
NOT_BEGUN: Final = "the process that makes values by schemas does not begin"
SILENT: Final = f"nothing was made of it within {ANSWER_S:.0f} s: this machine has other things to do"

Answer = dict[str, Any]


class _EndedError(Exception):
    """The process is no more, or says what nobody asked."""


class _SilentError(_EndedError):
    """It has not answered, though it may not take so much processor time: the machine has other things to do."""


class ApartReader:
    """`async with` ends the process. `expression` may be empty."""

    def __init__(self, expression: str = "") -> None:
        self._expression = expression
        self._schemas: dict[int, KnownSchema] = {}
        self._process: Process | None = None
        self._deaths = 0

    async def __aenter__(self) -> "ApartReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def check(self) -> None:
        """ConsoleError says where the expression is wrong."""
        if self._expression:
            try:
                await self._running()
            except _EndedError:
                raise bad_request("the expression takes too long to read") from None

    def learn(self, schema: KnownSchema) -> None:
        """Its number may stand in records from now on."""
        if schema.number not in self._schemas:
            self._schemas[schema.number] = schema
            if self._process is not None:
                self._tell(Learn(schema))

    async def look(self, records: Sequence[Raw], most: int) -> list[Answer]:
        """One for each: `matches`, and where so `key`, `value` and `problem`; `unfit` where an expression fails.

        ConsoleError 422 where too many records were the end of the process.
        """
        answers: list[Answer] = []
        while len(answers) < len(records):
            part = _part(records[len(answers) :])
            if not part:
                answers.append({"matches": not self._expression, "problem": TOO_LARGE})
                continue
            try:
                await self._running()
                self._tell(Look(part, most))
                until = len(answers) + len(part)
                while len(answers) < until:  # what was said before an end counts
                    answers.append(await self._answer())
            except _EndedError:
                answers.append({"matches": not self._expression, "problem": DIED})
                await self._died()
        return answers

    async def make(self, schema: KnownSchema, texts: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """The value of each, in their order. ConsoleError is the end: 400 where one is none of that schema, 503 where
        that is no fault of the text.
        """
        is_whole = False
        try:
            try:
                await self._running()
            except _EndedError:
                raise ConsoleError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_BEGUN) from None
            self._tell(Make(schema, texts))
            for _ in texts:
                answer = await self._answer()
                if not isinstance(answer.get("data"), str):
                    raise bad_request(f"it is no value of schema {schema.number}: {answer.get('problem')}")
                yield base64.b64decode(answer["data"], validate=True)
            is_whole = True
        except _SilentError:
            raise ConsoleError(HTTPStatus.SERVICE_UNAVAILABLE, SILENT) from None
        except (_EndedError, binascii.Error):
            raise bad_request(DIED) from None
        finally:
            if not is_whole:  # what the process still says is no answer to another question
                await self._end()

    async def _running(self) -> None:
        if self._process is not None:
            return
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "penstock.console.apart"), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        self._tell(Begin(self._expression))
        for schema in self._schemas.values():
            self._tell(Learn(schema))
        if problem := (await self._answer()).get("problem"):
            raise bad_request(f"the expression cannot be read: {problem}")

    def _tell(self, question: Question) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(packed(question))

    async def _answer(self) -> Answer:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                length = int.from_bytes(await self._process.stdout.readexactly(LENGTH_BYTES))
                if length > MOST_ANSWERED:
                    raise _EndedError
                answer = json.loads(await self._process.stdout.readexactly(length))
        except TimeoutError:
            raise _SilentError from None
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            raise _EndedError from None
        if not isinstance(answer, dict):
            raise _EndedError
        return answer

    async def _died(self) -> None:
        await self._end()
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            what = "the expression" if self._expression else "their schema"
            raise ConsoleError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{what} takes more than a second, or too much memory, for each of {MAX_DEATHS} records: given up",
            )

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


def _part(records: Sequence[Raw]) -> list[Raw]:
    """So many as are told at once; none where the first is too large."""
    part: list[Raw] = []
    left = TOLD_AT_ONCE
    for raw in records:
        size = len(raw.key or b"") + len(raw.value or b"") + sum(len(value or b"") for _, value in raw.headers)
        if size > LARGEST or (part and size > left):
            break
        part.append(raw)
        left -= size
    return part
