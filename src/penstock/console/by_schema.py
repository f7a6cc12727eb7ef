"""Keys and values as they are sent: bytes as they are, or made by the latest schema of a subject of JSON."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from http import HTTPStatus

from penstock.console.asked import Asked, Means, text_of
from penstock.console.errors import ConsoleError
from penstock.console.reader import ApartReader

PARTS = "key", "value"


class NotMadeError(ConsoleError):
    """A text that is none of the schema, or that could not be made: `place` is how many stand before it."""

    def __init__(self, place: int, status: HTTPStatus, why: str) -> None:
        super().__init__(status, why)
        self.place = place


async def by_schema(means: Means, asked: Asked, part: str, texts: Sequence[bytes | None]) -> list[bytes | None]:
    """`part` is key or value: the subject is what `key_schema` or `value_schema` says, if anything. None stays None.

    NotMadeError where one cannot be made; another ConsoleError where the schema cannot be had.
    """
    if not asked.get(f"{part}_schema"):
        return list(texts)
    schema = await means.schemas.latest(text_of(asked, f"{part}_schema"))
    made: list[bytes | None] = [None] * len(texts)
    given = list(_decoded(texts))
    if not given:
        return made
    done = 0
    try:
        async with ApartReader() as reader, aclosing(reader.make(schema, [text for _, text in given])) as values:
            async for value in values:
                made[given[done][0]] = value
                done += 1
    except ConsoleError as error:
        raise NotMadeError(given[done][0], error.status, str(error)) from None
    return made


def _decoded(texts: Sequence[bytes | None]) -> Iterator[tuple[int, str]]:
    for place, text in enumerate(texts):
        if text is not None:
            try:
                yield place, text.decode()
            except UnicodeDecodeError:
                why = "it is no text, and so no JSON for a schema"
                raise NotMadeError(place, HTTPStatus.BAD_REQUEST, why) from None
