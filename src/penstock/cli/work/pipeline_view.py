"""What a person sees while a pipeline runs: on a terminal a line per sink that changes in place, else plain lines."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from penstock.cli.terminal.console import LineConsole
from penstock.cli.terminal.lines import printable_json, say

if TYPE_CHECKING:
    from penstock.pipeline.running.progress import BatchProgress
    from penstock.pipeline.running.run import PipelineResult

COLUMNS = ("sink", "rows", "rows/s", "lag", "batch", "batch time")


class PipelineView:
    """A context manager: on a terminal it shows the progress of the pipeline."""

    def __init__(self, name: str, log_file: Path) -> None:
        self._name = name
        self._log_file = log_file
        self._console = LineConsole(highlight=False)
        self._state = "starting Spark …"
        self._rows: dict[str, int] = {}
        self._broken: Counter[tuple[str, str]] = Counter()
        self._latest: dict[str, BatchProgress] = {}
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> "PipelineView":
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(f"{self._name}: {self._state}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def running(self, ui: str | None = None) -> None:
        """Called when Spark is there and the queries start; `ui` is where Spark shows them, if it does."""
        self._state = "running; Ctrl-C stops it, the next run goes on from here"
        if not self._console.is_terminal:
            self._console.print(f"{self._name}: {self._state}")
        if ui is not None:
            self._console.print(f"{self._name}: Spark's own page is {ui}", soft_wrap=True)

    def batch_ended(self, batch: "BatchProgress") -> None:
        self._latest[batch.query] = batch
        self._rows[batch.query] = self._rows.get(batch.query, 0) + batch.input_rows
        self._broken.update({(batch.query, rule): count for rule, count in batch.broken.items() if count})
        if not self._console.is_terminal:
            self._console.print(
                " ".join(f"{name} {cell}" for name, cell in zip(COLUMNS, self._cells(batch), strict=True))
            )

    def failing(self, query: str, why: str) -> None:
        self._console.print(f"{query} failed, and is begun again: {why}", soft_wrap=True)

    def failed(self, why: str) -> None:
        """Names the log file if it has more to say; the command itself says why."""
        if self._log_file.is_file() and self._log_file.stat().st_size:
            self._console.print(f"More is in {self._log_file}", soft_wrap=True)

    def ended(self, result: "PipelineResult") -> None:
        if self._console.is_terminal:
            self._live.stop()
        how = "stopped" if result.was_stopped else "done"
        for query, rows in result.input_rows.items():
            self._console.print(f"{query}: {how} after {rows:,} rows in {result.batches[query]} batches")
        for (query, rule), count in self._broken.items():
            self._console.print(f"{query}: {count:,} rows broke the rule {rule}", soft_wrap=True)

    def filled(self, places: Mapping[str, str]) -> None:
        for query, place in places.items():
            self._console.print(f"{query}: written to {place}", soft_wrap=True)

    def _cells(self, batch: "BatchProgress") -> tuple[str, ...]:
        return (
            batch.query,
            f"{self._rows[batch.query]:,}",
            f"{batch.rows_per_second:,.0f}",
            "?" if batch.lag is None else f"{batch.lag:,}",
            str(batch.batch_id),
            f"{batch.duration_ms / 1000:.1f} s",
        )

    def _render(self) -> RenderableType:
        title = self._console.render_str(f"{self._name}: {self._state}", style="bold")
        if not self._latest:
            return title
        table = Table(*COLUMNS, box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        for batch in self._latest.values():
            table.add_row(*self._cells(batch))
        return Group(title, table)


class JsonView:
    """A line of JSON for each event (`jobs/report.py` reads them)."""

    def __enter__(self) -> "JsonView":
        self._say("starting")
        return self

    def __exit__(self, *_: object) -> None: ...

    def running(self, ui: str | None = None) -> None:
        self._say("running", ui=ui)

    def batch_ended(self, batch: "BatchProgress") -> None:
        state = batch.state
        self._say(
            "batch",
            query=batch.query,
            batch_id=batch.batch_id,
            input_rows=batch.input_rows,
            output_rows=batch.output_rows,
            duration_ms=batch.duration_ms,
            rows_per_second=round(batch.rows_per_second, 1),
            lag=batch.lag,
            lags=batch.lags,
            broken=dict(batch.broken),
            read=dict(batch.read),
            read_bytes=dict(batch.read_bytes),
            phases_ms=dict(batch.phases_ms),
            watermark_ms=batch.watermark_ms,
            began_ms=batch.began_ms,
            state=state and {name: getattr(state, name) for name in state.__fields__},
        )

    def failing(self, query: str, why: str) -> None:
        self._say("failing", query=query, error=why)

    def failed(self, why: str) -> None:
        self._say("failed", error=why)

    def filled(self, places: Mapping[str, str]) -> None:
        self._say("ended", places=dict(places))

    def ended(self, result: "PipelineResult") -> None:
        self._say(
            "ended", batches=dict(result.batches), input_rows=dict(result.input_rows), was_stopped=result.was_stopped
        )

    def _say(self, event: str, **more: object) -> None:
        say(printable_json({"event": event, **more}))
