"""Plugins by name: Connect's class names and their last part for what is built in, entry points, or `module:Class`.

A package offers connectors by entry points of the group `penstock.connectors`, transforms by `penstock.transforms`,
predicates by `penstock.predicates` and converters by `penstock.converters`.
"""

import difflib
import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from penstock import __version__
from penstock.work.connect.versions import fits


class PluginError(ValueError):
    pass


@cache
def offered_by_packages(kind: str) -> Sequence[EntryPoint]:
    """Looks at all that is installed, once: a package that comes later is known after a restart."""
    return tuple(entry_points(group=f"penstock.{kind}s"))


VERSION: Final = "plugin.version"


def version_of(plugin: type[Any]) -> str:
    """A plugin that has none comes along with this package, or counts so."""
    return str(getattr(plugin, "version", __version__))


def find_class(name: str, built_in: Mapping[str, type[Any]], kind: str, version: str | None = None) -> type[Any]:
    """`version` is what a configuration asks of it; PluginError, which names similar plugins."""
    found = _found(name, built_in, kind)
    try:
        is_good = version is None or fits(version_of(found), version)
    except ValueError as error:
        raise PluginError(f"{VERSION} of the {kind} {name}: {error}") from None
    if not is_good:
        raise PluginError(
            f"the {kind} {name} is installed in version {version_of(found)}, "
            f"and {VERSION}={version} asks for another one"
        )
    return found


def _found(name: str, built_in: Mapping[str, type[Any]], kind: str) -> type[Any]:
    if ":" in name:
        return _loaded(name, kind)
    short = {key.rpartition(".")[2]: key for key in built_in}
    found = built_in.get(name) or built_in.get(short.get(name, "")) or built_in.get(short.get(f"{name}Connector", ""))
    if found is not None:
        return found
    points = offered_by_packages(kind)
    offered = {point.name.rpartition(".")[2]: point for point in points} | {point.name: point for point in points}
    if name in offered:
        try:
            return offered[name].load()  # type: ignore[no-any-return]
        except Exception as error:
            raise PluginError(f"the {kind} {name} cannot be loaded: {error!r}") from error
    near = difflib.get_close_matches(name.rpartition(".")[2], [*short, *offered], n=1)
    hint = f"did you mean {near[0]}?" if near else "one of your own is named as module:Class"
    raise PluginError(f"there is no {kind} {name}; {hint}")


def _loaded(name: str, kind: str) -> type[Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise PluginError(f"the {kind} {name} cannot be loaded: {error!r}") from error
    if not isinstance(found, type):
        raise PluginError(f"the {kind} {name} is not a class")
    return found
