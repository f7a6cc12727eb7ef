"""What is declared of each API that a node serves: its versions, the rights that it needs, and how it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import isgeneratorfunction, unwrap
from pathlib import Path
from typing import Final

import pytest

from penstock.node.api.commands import AUDITED, HANDED_ON, OF_NODES, RULES
from penstock.node.api.mutation_quota import MUTATIONS
from penstock.node.serving.handler import CONTROLLER_HANDLERS, Handler, load_handlers
from penstock.protocol.requests.api import api_of
from penstock.protocol.value import Value

FOLDER: Final = Path(__file__).parent
APART: Final = ("api_key", "lowest", "newest", "function", "rule", "parts")


def names_of(handler: Handler) -> tuple[str, ...]:
    if isinstance(handler, Value):
        return type(handler).__match_args__
    assert is_dataclass(handler)
    return tuple(field.name for field in fields(handler))


def told(handlers: dict[int, Handler]) -> Iterator[str]:
    for key, handler in sorted(handlers.items()):
        assert handler.api_key == key
        others = [name for name in names_of(handler) if name not in APART and getattr(handler, name)]
        others += ["in slices"] * isgeneratorfunction(unwrap(handler.function))
        parts = [f"in parts of {asked} to {answered or 'the whole'}" for asked, answered in handler.parts]
        yield f"{api_of(key).name} {handler.lowest}-{handler.newest}: {', '.join([*others, *parts]) or 'as it comes'}"
        yield from (f"    {clause}" for clause in handler.rule)


def all_that_is_told() -> Iterator[str]:
    yield "# By brokers."
    yield from told(dict(load_handlers()))
    yield "# By controllers."
    yield from told(dict(load_handlers(CONTROLLER_HANDLERS)))
    for name, keys in (("In an envelope", HANDED_ON), ("By nodes for themselves", OF_NODES), ("Audited", AUDITED)):
        yield f"# {name}."
        yield from sorted(api_of(key).name for key in keys)
    yield "# Judged by the controller."
    yield from (f"{api_of(key).name}: {', '.join(map(str, rule))}" for key, rule in sorted(RULES.items()))
    yield "# Counted as changes."
    for key, one in MUTATIONS.items():
        yield f"{api_of(key).name}: {' and '.join(one.asked)}, told in {one.told}, refused from {one.strict_since} on"


def test_it_is_as_written(request: pytest.FixtureRequest) -> None:
    text = "\n".join(all_that_is_told()) + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / "handlers.txt").write_text(text, encoding="utf-8")
    assert text == (FOLDER / "handlers.txt").read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
