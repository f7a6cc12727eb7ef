"""Options of commands, declared by the parameters of their functions.

    @click.command(short_help="show the offsets of partitions")
    @declared
    def command(session: BrokerSession, topic: str | None = option("Only this topic."), as_json: bool = JSON) -> None:

A parameter has the option of its name, and its type says how that is read: a `bool` is a flag, a `Path` a file that is
there, a `tuple` may be given several times. `argument` is what stands without a name, and `actions` are flags of which
one is to be given. Several options can say one parameter (a `list`), or each an entry of it (a `dict`). A parameter
whose type is a `Value` has the options of its fields. `penstock start` does without: a node loads few modules.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

import click

from penstock.protocol.value import Value, ValueMeta

ANY_PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class Declaration(Value):
    kind: type[click.Parameter]
    names: tuple[str, ...]
    attributes: dict[str, Any]


class Actions(Value):
    """Flags with their help, of which exactly one is to be given; the parameter is its name. The options `with_value`,
    which are declared by themselves, count as well.
    """

    helps: dict[str, str]
    with_value: tuple[str, ...] = ()


def option(text: str | None, *names: str, **attributes: Any) -> Any:
    """`names` if the option has others than that of the parameter; `min`, `max` bound a number."""
    return Declaration(click.Option, names, {"help": text, **attributes})


def argument(**attributes: Any) -> Any:
    return Declaration(click.Argument, (), attributes)


def actions(*with_value: str, **helps: str) -> Any:
    """A flag for each keyword, with its help."""
    return Actions({name.strip("_").replace("_", "-"): text for name, text in helps.items()}, with_value)


JSON: Final = option("Print JSON, for programs.", "--json")


def declared(function: Callable[..., None]) -> Callable[..., None]:
    parts = [(it.name, it.annotation, it.default) for it in signature(function, eval_str=True).parameters.values()]

    @wraps(function)
    def call(**given: Any) -> None:
        function(**{name: _taken(name, hint, said, given) for name, hint, said in parts})

    options = [parameter for part in parts for parameter in _parameters(*part)]
    call.__click_params__ = options[::-1]  # type: ignore[attr-defined]  # as click's decorators leave them
    return call


def one_of(actions: Mapping[str, bool]) -> str:
    chosen = [name for name, given in actions.items() if given]
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in actions)
        raise click.UsageError(f"give exactly one of {names}" + (f"; given are {len(chosen)}" if chosen else ""))
    return chosen[0]


def _fields(values: Any) -> Iterator[tuple[str, Any, Any]]:
    hints = get_type_hints(values)
    return ((field, hints[field], values.__defaults__.get(field)) for field in values.__fields__)


def _taken(name: str, hint: Any, said: Any, given: dict[str, Any]) -> Any:
    if isinstance(hint, ValueMeta):
        return hint(**{field: _taken(field, inner, of_field, given) for field, inner, of_field in _fields(hint)})
    if isinstance(said, Actions):
        flags = {flag: given.pop(flag.replace("-", "_")) for flag in said.helps}
        return one_of(flags | {option: given[option] is not None for option in said.with_value})
    if isinstance(said, dict):
        return {key: given.pop(key) for key in said}
    return given.pop(name)


def _parameters(name: str, hint: Any, said: Any) -> Iterator[click.Parameter]:
    if isinstance(hint, ValueMeta):
        for part in _fields(hint):
            yield from _parameters(*part)
    elif isinstance(said, Actions):
        for flag, text in said.helps.items():
            yield click.Option([f"--{flag}"], is_flag=True, help=text)
    elif isinstance(said, dict):
        for key, one in said.items():
            yield _parameter(key, get_args(hint)[1], one)
    elif isinstance(said, Declaration | list):
        yield from (_parameter(name, hint, one) for one in (said if isinstance(said, list) else [said]))


def _parameter(name: str, hint: Any, said: Declaration) -> click.Parameter:
    kind = next((item for item in get_args(hint) if item is not NoneType), hint)
    attributes = {"type": _type(kind, said.attributes)} | said.attributes
    for of_type in ("min", "max", "exists"):
        attributes.pop(of_type, None)
    if said.kind is click.Argument:
        return click.Argument([name], **attributes)
    names = said.names or (f"--{name.strip('_').replace('_', '-')}",)
    if kind is bool:
        attributes["is_flag"] = True
    return click.Option([*names, name], multiple=get_origin(hint) is tuple, **attributes)


def _type(kind: Any, attributes: Mapping[str, Any]) -> Any:
    bounds = {bound: attributes[bound] for bound in ("min", "max") if bound in attributes}
    if bounds:
        return click.IntRange(**bounds) if kind is int else click.FloatRange(**bounds)
    if kind is Path:
        return FILE if attributes.get("exists", True) else ANY_PATH
    return None if kind is bool else kind
