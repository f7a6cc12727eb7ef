"""What a measurement is: a figure with its spread over several runs, and the budget that it is held against."""

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Budget:
    """The bound that a median must keep."""

    bound: float
    side: Literal["at most", "at least"] = "at most"

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.side == "at most" else value >= self.bound


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table: all runs of one figure."""

    name: str
    unit: str
    values: tuple[float, ...]
    budget: Budget | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or nothing where there is no budget."""
        if self.budget is None:
            return ""
        return "met" if self.budget.is_met(self.median) else "missed"


def measure(name: str, unit: str, values: Iterable[float], budget: Budget | None = None) -> Measure:
    """A measure of at least one run."""
    values = tuple(values)
    assert values, f"{name} was never measured"
    return Measure(name, unit, values, budget)


def machine() -> dict[str, str | int | float]:
    """What the figures depend on: processor, memory, system and versions."""
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
    """The value that so many percent of them do not reach."""
    return sorted(values)[int(len(values) * percent / 100)]
