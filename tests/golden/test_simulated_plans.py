"""The transcript of the plans that seeds of the simulation draw: another plan is another history of the same seed.

A step is a seed, perhaps so many nodes, and whether clients write transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from penstock.protocol.value import Value
from penstock.testing.simulator import plan as plans
from penstock.testing.simulator.plan import draw


def handle(line: str) -> Iterable[str]:
    seed, *words = line.split()
    nodes = next((int(word) for word in words if word.isdigit()), None)
    found = draw(Random(int(seed)), nodes, transacts="transacts" in words)
    names: tuple[str, ...] = type(found).__match_args__
    yield str(found)
    for name in names:
        value: Any = getattr(found, name)
        if isinstance(value, tuple) and value and isinstance(value[0], Value):
            yield from (f"  {one!r}" for one in value)
        else:
            yield f"{name}: {value!r}".replace(plans._JAAS, "…")
    for name in ("is_cluster", "replicas", "is_careless", "has_leases"):
        yield f"{name}: {getattr(found, name)!r}"


def test_plans(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("simulated_plans.txt", handle)
