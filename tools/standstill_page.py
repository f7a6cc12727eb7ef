"""The table and the picture of `docs/rebalances.md`, from what `tools/standstill.py` plays: `make docs` writes them."""

from collections.abc import Iterator, Mapping
from typing import Final

from bench.plots import box, drawing, line, text
from tools.standstill import CHANGES, MEMBERS, PARTITIONS, PROTOCOLS, Outcome, played

SHOWN_MS: Final = 60_000
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 200, 120, 130, 50, 20
COLOUR: Final = "#b5482f"
GROUND: Final = "#eef3f0"

Outcomes = Mapping[tuple[str, str], Outcome]
"""By change and protocol."""


def outcomes() -> dict[tuple[str, str], Outcome]:
    """A second of CPU."""
    return {(change, protocol): played(protocol, change) for change in CHANGES for protocol in PROTOCOLS}


def table(found: Outcomes) -> str:
    columns = ("protocol", "partitions that stop", "partition seconds", "the longest", "epochs", "moved")
    rows = [f"| of {MEMBERS} members | {' | '.join(columns)} |", "| --- " * (1 + len(columns)) + "|"]
    for (change, protocol), outcome in found.items():
        moved = " + ".join(str(epoch.moved) for epoch in outcome.epochs) or "0"
        facts = (
            f"{outcome.stopped} of {PARTITIONS}",
            f"{outcome.partition_seconds:.1f}",
            f"{outcome.longest_ms / 1000:.1f} s",
            str(len(outcome.epochs)),
            moved,
        )
        rows.append(f"| {change} | {protocol} | {' | '.join(facts)} |")
    return "\n".join(rows) + "\n"


def picture(found: Outcomes) -> str:
    """A panel for each change and protocol: time to the right, partitions below each other, red where one stands."""
    parts: list[str] = []
    for row, change in enumerate(CHANGES):
        y = TOP + row * (PANEL_HEIGHT + GAP)
        parts.append(text(8, y + PANEL_HEIGHT / 2, change))
        for column, protocol in enumerate(PROTOCOLS):
            x = LEFT + column * (PANEL_WIDTH + GAP)
            if not row:
                parts.append(text(x + PANEL_WIDTH / 2, TOP - 16, protocol, "middle"))
            parts += _panel(x, y, found[change, protocol])
    bottom = TOP + len(CHANGES) * (PANEL_HEIGHT + GAP)
    for column in range(len(PROTOCOLS)):
        x = LEFT + column * (PANEL_WIDTH + GAP)
        parts += [text(x, bottom, "0 s"), text(x + PANEL_WIDTH, bottom, f"{SHOWN_MS // 1000} s", "end")]
    return drawing(LEFT + len(PROTOCOLS) * (PANEL_WIDTH + GAP), bottom + GAP, parts)


def _panel(x: float, y: float, outcome: Outcome) -> Iterator[str]:
    yield box(x, y, PANEL_WIDTH, PANEL_HEIGHT, GROUND)
    high = PANEL_HEIGHT / PARTITIONS
    for first, size, begin, end in _blocks(outcome):
        left, right = (min(at, SHOWN_MS) / SHOWN_MS * PANEL_WIDTH for at in (begin, end))
        yield box(x + left, y + first * high, max(right - left, 0.8), size * high, COLOUR)
    yield line(x, x + PANEL_WIDTH, y + PANEL_HEIGHT, y + PANEL_HEIGHT, "#999")


def _blocks(outcome: Outcome) -> Iterator[tuple[int, int, int, int]]:
    """Neighbours that stop and go on together: the first, how many, from when, till when."""
    left = dict.fromkeys(outcome.stops)
    for stop in outcome.stops:
        if stop in left:
            partition, begin, end = stop
            size = 0
            while (partition + size, begin, end) in left:
                del left[partition + size, begin, end]
                size += 1
            yield partition, size, begin, end
