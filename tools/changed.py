"""Which lines of the code changed since a revision, and a page of how many bugs in them no test notices."""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.asking import SAME, SURVIVORS

ROOT = Path(__file__).resolve().parents[1]
GENERATED = "src/penstock/protocol/messages/"
HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_CHARACTERS = 150
PAGE = """# Bugs that tests notice

What `make mutants SINCE={since}` found. Bugs drawn by chance were planted into lines that changed since `{since}`, one
at a time, and the tests that run the line were asked: unit tests, what is left in simulations, then on the wire
([testing](testing.md#how-penstocks-own-tests-are-tested)).

| package | lines changed | bugs possible | planted | noticed | make no difference | survive | share |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}

The share is of those that make a difference, as far as somebody looked (`tools/no_difference.toml` has the reasons).

Clusters of processes were not asked. Nothing was planted into what runs beside Spark alone (`BESIDE_SPARK` in
`tools/planter.py`).

Those that survive, and what was stopped by the limit of time alone, which counts as noticed:

{left}
"""


def changed_lines(since: str) -> dict[Path, set[int]]:
    """By file; a file that was only renamed has not changed."""
    command = ["git", "diff", "-U0", "-M", since, "--", "src/penstock"]
    found: dict[Path, set[int]] = {}
    path = ROOT
    for line in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("+++ "):
            path = ROOT / line.removeprefix("+++ b/")
        elif (hunk := HUNK.match(line)) and path.suffix == ".py" and GENERATED not in str(path):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(path, set()).update(range(first, first + count))
    return found


def page(since: str, figures: Mapping[str, tuple[int, int, Mapping[str, int]]], left: Iterable[str]) -> str:
    """`figures` are by package: lines changed, bugs possible, how many bugs ended in which way."""
    rows = [_row(place, lines, possible, tally) for place, (lines, possible, tally) in figures.items()]
    tallies = [tally for _, _, tally in figures.values()]
    total = {
        verdict: sum(tally.get(verdict, 0) for tally in tallies) for verdict in {key for it in tallies for key in it}
    }
    lines, possible = (sum(of[at] for of in figures.values()) for at in (0, 1))  # type: ignore[misc]
    rows.append(_row("**all**", lines, possible, total))
    return PAGE.format(since=since, rows="\n".join(rows), left="\n".join(f"* {_short(one)}" for one in left) or "none")


def _short(text: str) -> str:
    return f"`{text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + '…'}`"


def _row(place: str, lines: int, possible: int, tally: Mapping[str, int]) -> str:
    planted, survive = sum(tally.values()), sum(tally.get(verdict, 0) for verdict in SURVIVORS)
    same = tally.get(SAME, 0)
    share = f"{survive / (planted - same):.0%}" if planted > same else ""
    cells: Sequence[object] = (place, lines, possible, planted, planted - survive - same, same, survive, share)
    return f"| {' | '.join(map(str, cells))} |"
