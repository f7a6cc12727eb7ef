"""What modules say when they are imported: records as they lie in the log, values and their defaults, states, numbers.

A record of another form, or a state of another number, is not read by the next coordinator, nor by Kafka's.
"""

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from struct import Struct
from types import ModuleType
from typing import Any, Final
from zlib import crc32

import pytest

from penstock.protocol.schema import Message
from penstock.protocol.value import Value, _Fresh

FOLDER: Final = Path(__file__).parent
ROOMS: Final = (
    *("coordinator", "sharing", "node/coordinators", "node/sharing"),
    *("client", "console", "pipeline", "protocol", "work"),
)
ELSEWHERE: Final = ("penstock.protocol.messages.", "penstock.pipeline.running")
"""What is generated, and what runs beside Spark."""
SIMPLE: Final = (int, str, bytes, float, type(None))
LENGTH: Final = 120
"""Of what is longer the beginning is told, and a checksum."""


def modules(room: str) -> Iterator[ModuleType]:
    whole = importlib.import_module(f"penstock.{room.replace('/', '.')}")
    yield whole
    found = pkgutil.walk_packages(whole.__path__, f"{whole.__name__}.")
    names = sorted(one.name for one in found if not one.name.startswith(ELSEWHERE))
    yield from map(importlib.import_module, names)


def told(value: object) -> str | None:
    """None for what is no number, nor text, nor made of such."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, Value):
        return f"{type(value).__name__}({', '.join(str(told(getattr(value, name))) for name in value.__fields__)})"
    if isinstance(value, Struct):
        return f"Struct({value.format!r})"
    if isinstance(value, _Fresh):
        return f"{getattr(value.make, '__name__', 'something')}()"
    if isinstance(value, SIMPLE):
        return repr(value) if value != sys.executable else "'python'"
    if isinstance(value, Mapping):
        parts = [f"{told(key)}: {told(one)}" for key, one in value.items()]
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, tuple | list | frozenset | set):
        parts = [str(told(one)) for one in value]
        return f"[{', '.join(sorted(parts) if isinstance(value, frozenset | set) else parts)}]"
    return value.__name__ if isinstance(value, type) else None


def short(value: object) -> str | None:
    text = told(value)
    return text if text is None or len(text) <= LENGTH else f"{text[:LENGTH]}… {crc32(text.encode()):x}"


def of_message(kind: type[Message]) -> Iterator[str]:
    for name, it in kind.__fields__.items():
        of = it.kind if isinstance(it.kind, str) else it.kind.__name__
        says = [f"{'[]' if it.is_array else ''}{of} {it.versions}", f"default {told(it.new_default())}"]
        says += [f"nullable {it.nullable}"] if it.nullable else []
        says += [f"tag {it.tag} {it.tagged}"] if it.tag is not None else []
        yield f"    {name}: {', '.join(says)}"


def of_class(kind: type[Any], names: list[str]) -> Iterator[str]:
    """`names`: of what the class itself gives a value."""
    if issubclass(kind, Enum):
        yield from (f"    {one.name} = {one.value!r}" for one in kind)
    elif issubclass(kind, Message):
        yield from of_message(kind)
    elif issubclass(kind, Value):
        usual = {name: told(one) for name, one in kind.__defaults__.items()}
        yield from (f"    {name}{f' = {usual[name]}' if name in usual else ''}" for name in kind.__fields__)
    elif is_dataclass(kind):
        for one in fields(kind):
            usually = "" if one.default is MISSING else f" = {told(one.default)}"
            if one.default_factory is not MISSING:
                usually = f" = {getattr(one.default_factory, '__name__', 'something')}()"
            yield f"    {one.name}{usually}{'' if one.init else ', not given'}"
    is_said = issubclass(kind, Enum | Message) or is_dataclass(kind)
    for name in () if is_said else names:
        value = vars(kind).get(name)
        if value is not None and short(value) is not None:
            yield f"    {name}: {short(value)}"


def set_in(body: list[ast.stmt]) -> list[str]:
    """The names that a module or a class gives a value."""
    targets = [one for it in body if isinstance(it, ast.Assign) for one in it.targets]
    targets += [it.target for it in body if isinstance(it, ast.AnnAssign) and it.value is not None]
    flat = [one for it in targets for one in (it.elts if isinstance(it, ast.Tuple) else [it])]
    return [one.id for one in flat if isinstance(one, ast.Name) and not one.id.startswith("__")]


def lines(room: str) -> Iterator[str]:
    for module in modules(room):
        body = ast.parse(inspect.getsource(module)).body
        constants = [name for name in set_in(body) if name == name.upper()]  # others are changed by what runs
        numbers = {name: short(getattr(module, name)) for name in constants}
        said = [f"  {name} = {value}" for name, value in numbers.items() if value is not None]
        for it in body:
            if isinstance(it, ast.ClassDef):
                of = list(of_class(getattr(module, it.name), set_in(it.body)))
                said += [f"  {it.name}", *of] if of else []
        if said:
            yield module.__name__
            yield from said
            yield ""


@pytest.mark.parametrize("room", ROOMS)
def test_modules_say_what_is_written(request: pytest.FixtureRequest, room: str) -> None:
    path = FOLDER / "tables" / f"{room.replace('/', '_')}.txt"
    text = "\n".join(lines(room)).rstrip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
