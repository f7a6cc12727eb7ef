"""How far long work has come, on the terminal of a person; nothing where there is none."""

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

SHOW_EVERY = 1_000


class Progress:
    """Counts records and bytes. A context manager; shows a bar on standard error if that is a terminal."""

    def __init__(self, verb: str, total_bytes: int | None, *, shown: bool) -> None:
        self._verb = verb
        self._total_bytes = total_bytes
        self._shown = shown
        self._bar: rich.progress.Progress | None = None
        self.records = 0
        self.bytes = 0

    @classmethod
    def of_input(cls, verb: str) -> "Progress":
        """Work on the standard input, if that is no terminal; its size is known if it is a file."""
        total: int | None = None
        with suppress(OSError, ValueError):
            status = os.fstat(sys.stdin.fileno())
            total = status.st_size if stat.S_ISREG(status.st_mode) else None
        return cls(verb, total, shown=sys.stderr.isatty() and not sys.stdin.isatty())

    def __enter__(self) -> Self:
        if self._shown:
            # Not at the top: 30 ms of CPU that only a terminal needs.
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            from penstock.cli.terminal.console import LineConsole

            self._bar = Bar(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=LineConsole(stderr=True)
            )
            self._bar.start()
            self._task = self._bar.add_task(self._describe(), total=self._total_bytes)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._show(self._bar)
            self._bar.stop()

    def advance(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.bytes += size_bytes
        if self._bar is not None and self.records % SHOW_EVERY < records:
            self._show(self._bar)

    def _show(self, bar: "rich.progress.Progress") -> None:
        bar.update(self._task, completed=self.bytes, description=self._describe())

    def _describe(self) -> str:
        return f"{self._verb} {self.records:,} records"
