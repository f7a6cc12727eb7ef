"""What a measurement is: figures with their spread and budgets; how a run is asked for, shown, and kept as JSON.

The file has a row for each figure, with when and where. A run replaces the rows that it measured.
"""

import argparse
import json
import os
import platform
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Budget:
    """The bound that a median must keep."""

    bound: float
    side: Literal["at most", "at least"] = "at most"

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.side == "at most" else value >= self.bound


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    unit: str
    values: tuple[float, ...]
    budget: Budget | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or empty without a budget."""
        if self.budget is None:
            return ""
        return "met" if self.budget.is_met(self.median) else "missed"


def measure(name: str, unit: str, values: Iterable[float], budget: Budget | None = None) -> Measure:
    """Of at least one run."""
    values = tuple(values)
    assert values, f"{name} was never measured"
    return Measure(name, unit, values, budget)


class Figures:
    """Measures that grow run by run, in the order of their first run."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, list[float], Budget | None]] = {}
        self._is_warming_up = False

    def runs(self, count: int) -> Iterator[int]:
        """One to warm up, of which nothing is kept, and then those that count."""
        for number in range(count + 1):
            self._is_warming_up = not number
            yield number

    def add(self, name: str, unit: str, value: float, budget: Budget | None = None) -> float:
        """One more run of a figure; returns the value."""
        if not self._is_warming_up:
            self._found.setdefault(name, (unit, [], budget))[1].append(value)
        return value

    def most(self, name: str) -> float:
        """Of all runs of a figure."""
        return max(self._found[name][1])

    def measures(self) -> list[Measure]:
        return [measure(name, unit, values, budget) for name, (unit, values, budget) in self._found.items()]


def machine() -> dict[str, str | int | float]:
    return {
        "processor": _first_value("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int((_first_value("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "penstock": version("penstock"),
        "confluent-kafka": version("confluent-kafka"),
    }


def _first_value(path: str, key: str) -> str | None:
    file = Path(path)
    if not file.exists():
        return None
    lines = (line.partition(":") for line in file.read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), None)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of them do not reach."""
    return sorted(values)[int(len(values) * percent / 100)]


def asked(parser: argparse.ArgumentParser, what: str, known: Collection[str]) -> argparse.Namespace:
    """`names` are the named ones, or all."""
    parser.add_argument("names", nargs="*", metavar=what.upper(), help=f"any of: {', '.join(known)} (all)")
    words = parser.parse_args()
    words.is_all = not words.names
    unknown = sorted(set(words.names) - set(known))
    if unknown:
        parser.error(f"no {what} {', '.join(unknown)}: choose from {', '.join(known)}")
    words.names = words.names or list(known)
    return words


def figure(value: float) -> str:
    """Three significant digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(measures: Sequence[Measure], title: str) -> Table:
    out = Table(title=title)
    for heading in ("figure", "median", "min", "max", "unit", "budget", ""):
        out.add_column(heading, justify="left" if heading in ("figure", "unit", "") else "right")
    for one in measures:
        budget = f"{one.budget.side} {one.budget.bound:,g}" if one.budget else ""
        spread = (one.median, min(one.values), max(one.values))
        out.add_row(one.name, *map(figure, spread), one.unit, budget, one.verdict)
    return out


RESULTS: Final = Path(__file__).parent / "results"
Row = dict[str, Any]


def write(path: Path, measures: Sequence[Measure], *, is_all: bool) -> None:
    """Replaces the rows of this run; other rows stay, unless `is_all`."""
    others = [] if is_all else rows(path)
    origin = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"measures": merged(others, measures, origin)}, indent=2) + "\n")


def rows(path: Path) -> list[Row]:
    return list(json.loads(path.read_text())["measures"]) if path.exists() else []


def merged(others: Sequence[Row], measures: Sequence[Measure], origin: Row) -> list[Row]:
    """Each row where it was, and new ones behind them."""
    new = {one.name: asdict(one) | {"median": one.median} | origin for one in measures}
    return [new.pop(row["name"], row) for row in others] + list(new.values())
