"""What was measured, as JSON: a row for each figure, with when and where. A run replaces the rows that it measured."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.measure import Measure, machine

RESULTS: Final = Path(__file__).parent / "results"
Row = dict[str, Any]


def write(path: Path, measures: Sequence[Measure], *, is_all: bool) -> None:
    """Put the rows of a run into the file; those of others stay, unless this run was about all that there is."""
    others = [] if is_all else rows(path)
    origin = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"measures": merged(others, measures, origin)}, indent=2) + "\n")


def rows(path: Path) -> list[Row]:
    """The rows of a file, if there is one. In files from before rows had an origin, the file has it."""
    if not path.exists():
        return []
    document = json.loads(path.read_text())
    origin = {key: document[key] for key in ("when", "machine") if key in document}
    return [row | origin for row in document["measures"]]


def merged(others: Sequence[Row], measures: Sequence[Measure], origin: Row) -> list[Row]:
    """Each row where it was, and what is new behind them."""
    new = {one.name: asdict(one) | {"median": one.median} | origin for one in measures}
    return [new.pop(row["name"], row) for row in others] + list(new.values())
