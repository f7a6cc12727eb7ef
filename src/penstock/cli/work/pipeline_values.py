"""`KEY=VALUE` on the command line of `penstock pipeline`: values of a file's names, and settings of Spark."""

from collections.abc import Iterable
from typing import Any, Final

import click

from penstock.cli.terminal.options import option

SET: Any = option("what ${NAME} stands for in the file; may be repeated", "--set", metavar="NAME=VALUE")
CONF: Any = option("a setting of Spark; may be repeated", metavar="KEY=VALUE")
HINTS: Final = {"set": "NAME=VALUE", "conf": "KEY=VALUE"}


def pairs(what: str, items: Iterable[str]) -> dict[str, str]:
    """Of the option --set or --conf."""
    found: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{item} is not {HINTS[what]}", param_hint=f"--{what}")
        found[key] = value
    return found
