"""What the demo prints: a line a step with the time since its start, progress bars, the table, the verdict."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

WORST = 10
FLIGHTS_FOR_A_PLACE = 5
"""An hour with fewer flights says more about one aeroplane than about the hour."""


class Report:
    """Prints for people; bars only on a terminal."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._begun = time.perf_counter()

    def say(self, text: str) -> None:
        """A line with the seconds since the start."""
        self.console.print(f"[dim]{time.perf_counter() - self._begun:5.1f} s[/dim]  {text}", soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Bars that vanish when the work is done."""
        columns = (TextColumn("         {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bars:
            yield bars

    def worst_hours(self, delays: pd.DataFrame) -> None:
        """The ten hours with the longest average delay."""
        out = Table(
            title=f"The {WORST} worst hours (UTC) of 2013, by average delay, of at least {FLIGHTS_FOR_A_PLACE} flights"
        )
        for heading in ("hour", "from", "carrier", "flights", "average delay", "worst"):
            out.add_column(heading, justify="left" if heading in ("hour", "from", "carrier") else "right")
        counted = delays[delays.flights >= FLIGHTS_FOR_A_PLACE]
        counted = counted.assign(average=counted.delay_minutes / counted.flights)
        for row in counted.nlargest(WORST, "average").to_dict("records"):
            hour = str(row["hour"])[:16].replace("T", " ")
            counts = (str(row["flights"]), f"{row['average']:.0f} min", f"{row['worst_minutes']} min")
            out.add_row(hour, str(row["origin"]), str(row["carrier"]), *counts)
        self.console.print(out)

    def verdict(self, name: str, agrees: bool, rows: int) -> None:
        """Whether one way out agrees with pandas."""
        word = "[green]agrees[/green] with" if agrees else "[red]differs[/red] from"
        self.say(f"{name} ({rows:,} rows) {word} the same computation in plain pandas")
