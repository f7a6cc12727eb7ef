"""Limits of copies: one that would let nothing through is refused by whatever command takes it."""

from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from penstock.cli.main import COMMANDS


def limits(command: click.Command) -> Iterator[click.Parameter]:
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from limits(inner)
    for parameter in command.params:
        if "throttle" in str(parameter.name) and not isinstance(parameter.type, click.types.BoolParamType):
            yield parameter


ALL = [limit for module, _ in COMMANDS.values() for limit in limits(import_module(f"penstock.cli.{module}").command)]


def test_there_are_some() -> None:
    assert len(ALL) >= 4


@pytest.mark.parametrize("limit", ALL, ids=lambda limit: limit.name)
def test_it_lets_something_through(limit: click.Parameter) -> None:
    assert [limit.type.convert(text, limit, None) for text in ("1", "5000", "-1")] == [1, 5000, -1]
    for text in ("0", "-5"):
        with pytest.raises(click.BadParameter, match=f"with {text} bytes a second nothing would move: give 1 or more"):
            limit.type.convert(text, limit, None)
