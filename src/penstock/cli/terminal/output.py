"""What commands print: tables for people, JSON for programs. Both say the same."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from penstock.cli.terminal.lines import printable_json, say

Value = str | int | float | bool | None
PIPE_WIDTH: Final = 10_000
UNKNOWN: Final = "-"
NOTHING: Final = "nothing to show"


def print_json(document: object) -> None:
    click.echo(printable_json(document, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, empty: str = NOTHING) -> None:
    """On a pipe nothing is cut to the width of a terminal."""
    if not rows:
        say(empty, err=True)
        return
    # Not at the top: 20 ms of CPU that JSON and empty answers do not need.
    from rich import box
    from rich.table import Table

    from penstock.cli.terminal.console import LineConsole

    on_terminal = sys.stdout.isatty()
    console = LineConsole(file=sys.stdout, width=None if on_terminal else PIPE_WIDTH, highlight=False)
    table = Table(box=box.SIMPLE_HEAD if on_terminal else None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(show, row))
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))  # with styles


def as_objects(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[dict[str, Value]]:
    """Keys are the column names in snake_case."""
    keys = [column.lower().replace("-", "_").replace(" ", "_").replace("/s", "_per_second") for column in columns]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Value]], *, as_json: bool, empty: str = NOTHING) -> None:
    print_found(as_objects(columns, rows), columns, rows, as_json=as_json, empty=empty)


def print_found(
    found: object, columns: Sequence[str], rows: Sequence[Sequence[Value]], *, as_json: bool, empty: str = NOTHING
) -> None:
    """Users see `rows`, programs all that was found."""
    if as_json:
        print_json(found)
    else:
        print_table(columns, rows, empty=empty)


def print_lines(lines: Sequence[str], document: object, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    elif lines:
        say(*lines)


def joined(items: Iterable[object]) -> str:
    """With commas, as options take them."""
    return ",".join(map(str, items))


def show(value: Value) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def show_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def show_bytes(size: int | None) -> str:
    if size is None or size < 0:
        return UNKNOWN
    number, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
