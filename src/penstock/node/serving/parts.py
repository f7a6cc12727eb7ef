"""Large requests in parts: what is asked about each of many things is asked about some of them at a time.

A handler whose answer has an item for each item of the request says so (`Handler.parts`), and sees parts of at most
`PART_ITEMS` things, others having their turn in between. An item with a long array of its own (the partitions of one
topic) is cut, and its answers are joined again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from types import GeneratorType
from typing import Any, Final, Protocol, TypeVar

from penstock.node.serving.slices import BEGINS, Pace, Slices, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.schema import Message

T = TypeVar("T")
K = TypeVar("K")

PART_ITEMS: Final = 10
LARGE_BYTES: Final = 512
"""A shorter request is not worth a look at its items."""

NAMES_A_STEP: Final = 500
"""Of what is only put together: some of a millisecond."""

NAMES_HELD: Final = 1_000
"""No more than an answer may hold that has not begun."""

LONG = 200
"""Items of an answer that are too many to make bytes of in one go."""


def is_long(answer: Any) -> bool:
    """Whether the arrays of an answer have many items, with those in their items: as a large group has members."""
    return _items(answer, 0) > LONG


def _items(message: Any, count: int) -> int:
    """Counted from `count` on, and no further than needed."""
    if not isinstance(message, Message):
        return count
    for name, field in message.__fields__.items():
        items = getattr(message, name) or () if field.is_array else ()
        count += len(items)
        for item in () if isinstance(field.kind, str) or count > LONG else items:
            count = _items(item, count)
            if count > LONG:
                break
    return count


def long_arrays(message: Any) -> list[list[Any]]:
    """Copies of its long arrays, and of those in their items: what they hold is not freed with the message."""
    found: list[list[Any]] = []
    if isinstance(message, Message):
        for name, field in message.__fields__.items():
            items = getattr(message, name) if field.is_array else None
            if not items:
                continue
            if len(items) > LONG:
                found.append(list(items))
            if not isinstance(field.kind, str):
                found += (array for item in items for array in long_arrays(item))
    return found


def let_go(arrays: list[list[Any]]) -> None:
    """Free what many objects take, in a thread and a few at a time: all at once, nothing else runs meanwhile."""
    while arrays:
        array = arrays.pop()
        while array:
            del array[-LONG:]


class Sliced(Protocol):
    @property
    def slices(self) -> Slices: ...


class Asked(Protocol):
    """A handler."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def parts(self) -> Names: ...


Names = tuple[tuple[str, str], ...]
"""Arrays of a request, the first of which that is filled may be cut, each with that of the answer.

Those within it are cut as well: down to one that is named behind it, `topics.partitions`, or all of them; or none, as
behind `transactions.`, whose items are answered as a whole.
"""
ALL: Final = -1
"""Arrays within an array."""


def asked(handler: Asked, node: Sliced, context: Any, request: Any, *, is_large: bool = True) -> Any:
    """What a handler says, or what is to be awaited for it."""
    if is_large and handler.parts:
        return node.slices.answer(in_parts(partial(handler.function, node, context), request, handler.parts))
    reply = handler.function(node, context, request)
    return node.slices.answer(reply) if type(reply) is GeneratorType else reply


def in_parts(answer: Callable[[Any], Any], request: Any, names: Names) -> Steps[Any]:
    """The answer to the whole request; where there is an error about all of a part, that is the answer."""
    fields = [(field.split("."), told) for field, told in names]
    (field, *within), told = next((pair for pair in fields if getattr(request, pair[0][0])), fields[0])
    depth = len([name for name in within if name]) if within else ALL
    replies = []
    for items, _, goes_on in _parts(getattr(request, field) or [], PART_ITEMS, depth):
        replies.append((answer(request.replace(**{field: items})), goes_on))
        yield None
    if not replies:
        replies.append((answer(request), False))
    whole: Any = None
    for reply, goes_on in replies:
        response = (yield reply) if isinstance(reply, Awaitable) else reply
        if getattr(response, "error_code", ErrorCode.NONE):
            return response
        if whole is None:
            whole = response
        if whole is not response:
            _join(getattr(whole, told), getattr(response, told), goes_on)
            yield None
    return whole


def _parts(items: list[Any], most: int, depth: int) -> Iterator[tuple[list[Any], int, bool]]:
    """Some of the items, how many things they are, and whether the first one is the rest of the last one before."""
    part: list[Any] = []
    count, goes_on = 0, False
    for item in items:
        for piece, size, is_rest in _pieces(item, most, depth):
            if count + size > most and part:
                yield part, count, goes_on
                part, count, goes_on = [], 0, is_rest
            part.append(piece)
            count += size
    if part:
        yield part, count, goes_on


def _pieces(item: Any, most: int, depth: int) -> Iterator[tuple[Any, int, bool]]:
    name = _array_of(item) if depth else None
    inner = getattr(item, name) if name is not None else None
    if name is None or not inner:
        yield item, 1, False
        return
    for number, (some, size, _) in enumerate(_parts(inner, most, depth - 1)):
        is_whole = not number and len(some) == len(inner) and some[-1] is inner[-1]
        yield (item if is_whole else item.replace(**{name: some})), size, number > 0


def _array_of(item: Any) -> str | None:
    if not isinstance(item, Message):
        return None
    return next((name for name, field in item.__fields__.items() if field.is_array), None)


def _join(whole: list[Any], more: list[Any], goes_on: bool) -> None:
    if goes_on and whole and more and (name := _array_of(whole[-1])) is not None and _is_same(whole[-1], more[0]):
        _join(getattr(whole[-1], name), getattr(more[0], name), goes_on)
        more = more[1:]
    whole += more


def _is_same(one: Message, other: Message) -> bool:
    plain = (name for name, field in one.__fields__.items() if not field.is_array)
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in plain)


def has_any(items: Iterable[T], test: Callable[[T], bool]) -> Steps[bool]:
    """Whether one of very many is so."""
    for some in _some(items):
        if any(map(test, some)):
            return True
        if len(some) == NAMES_A_STEP:
            yield None
    return False


def times_named(names: Iterable[K]) -> Steps[Counter[K]]:
    """How often each of very many is named."""
    times = Counter[K]()
    for some in _some(names):
        times.update(some)
        if len(some) == NAMES_A_STEP:
            yield None
    return times


def listed(names: Collection[str]) -> Steps[list[str]]:
    """Very many once the answer has begun: as many answers as there are clients may wait for that."""
    if len(names) > NAMES_HELD:
        yield BEGINS
    return list(names)


def in_order(names: Collection[str]) -> Steps[list[str]]:
    """A thread sorts very many."""
    found = yield from listed(names)
    if len(found) > NAMES_A_STEP:
        yield found.sort
    else:
        found.sort()
    return found


def _some(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, NAMES_A_STEP)):
        yield some


def named_once(
    topics: Iterable[T],
    name: Callable[[T], K],
    partitions: Callable[[T], Iterable[int]],
    found: dict[K, dict[int, None]],
    pace: Pace,
) -> Steps[None]:
    """The partitions that topics name, in their order, each once: there may be much to tell of one that is named
    again and again, and a short request had an answer without end.
    """
    for topic in topics:
        indexes = found.setdefault(name(topic), {})
        if pace.is_due():
            yield None
        for index in partitions(topic):
            indexes[index] = None
            if pace.is_due():
                yield None
