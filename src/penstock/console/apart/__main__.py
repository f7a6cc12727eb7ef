"""The process apart: looks at one record after the other, and dies of one that takes too much.

Memory is limited from the beginning. Each record has its processor time, at whose end the system kills the process: no
handler could, while a library is in a loop of its own. It ends with the console, whose writing ends then.
"""

import base64
import resource
import signal
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from penstock.console.apart.decoding import Decode, Encode, decoder_of, encoder_of
from penstock.console.apart.expressions import Expression, ExpressionError, Looked
from penstock.console.apart.frames import Begin, Learn, Look, Make, Question, Raw, read_question, write_answer
from penstock.console.apart.schema import KnownSchema, UnreadableError

MOST_MEMORY: Final = 512 * 1024 * 1024
MOST_CPU_S: Final = 1.0
"""Of one record."""
TOO_MUCH: Final = "it takes more memory than there is for one record"


class Apart:
    def __init__(self) -> None:
        self._expression: Expression | None = None
        self._schemas: dict[int, KnownSchema] = {}
        self._decoders: dict[int, Decode] = {}
        self._encoders: dict[int, Encode] = {}

    def answers(self, question: Question) -> Iterator[dict[str, Any]]:
        """Each has its own processor time."""
        match question:
            case Begin():
                yield self._begin(question.expression)
            case Learn():
                self._schemas[question.schema.number] = question.schema
            case Make():
                yield from map(partial(self._made, question.schema), question.texts)
            case Look():
                yield from (self.seen(raw, question.most) for raw in question.records)

    def _begin(self, expression: str) -> dict[str, Any]:
        try:
            self._expression = Expression(expression) if expression else None
        except ExpressionError as error:
            return {"problem": str(error)}
        return {}

    def _made(self, schema: KnownSchema, text: str) -> dict[str, Any]:
        try:
            if schema.number not in self._encoders:
                self._encoders[schema.number] = encoder_of(schema)
            return {"data": base64.b64encode(self._encoders[schema.number](text)).decode()}
        except UnreadableError as error:
            return {"problem": str(error)}

    def seen(self, raw: Raw, most: int) -> dict[str, Any]:
        """Whether it matches, and its key and value where a schema decoded them; or what is the matter."""
        try:
            texts, problem = self._texts(raw)
            if self._expression is not None and not self._expression.matches(_looked(raw, texts)):
                return {"matches": False}
            shown = [
                None if number is None else _cut(text, most) for number, text in zip(raw.schemas, texts, strict=True)
            ]
            return {"matches": True, "key": shown[0], "value": shown[1], "problem": problem}
        except ExpressionError as error:
            return {"matches": False, "unfit": str(error)[:500]}
        except MemoryError:
            return {"matches": self._expression is None, "problem": TOO_MUCH}

    def _texts(self, raw: Raw) -> tuple[list[str | None], str | None]:
        """Of key and value; a value that is not what its schema says is left as its bytes say, and its fault told."""
        texts: list[str | None] = []
        problem = None
        for data, number in zip((raw.key, raw.value), raw.schemas, strict=True):
            try:
                texts.append(_plain(data) if data is None or number is None else self._decoder(number)(data))
            except UnreadableError as error:
                problem = str(error)
                texts.append(None)
        return texts, problem

    def _decoder(self, number: int) -> Decode:
        if number not in self._decoders:
            self._decoders[number] = decoder_of(self._schemas[number])
        return self._decoders[number]


def _plain(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data.hex() if data is not None else None


def _looked(raw: Raw, texts: list[str | None]) -> Looked:
    headers = [(name, _plain(value)) for name, value in raw.headers]
    return Looked(raw.topic, raw.partition, raw.offset, raw.timestamp_ms, texts[0], texts[1], headers)


def _cut(text: str | None, most: int) -> dict[str, Any] | None:
    return None if text is None else {"text": text[:most], "size": len(text), "cut": len(text) > most}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    apart, questions, answers = Apart(), sys.stdin.buffer, sys.stdout.buffer
    while (question := read_question(questions)) is not None:
        following = apart.answers(question)
        while True:
            signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
            if (answer := next(following, None)) is None:
                break
            write_answer(answers, answer)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
