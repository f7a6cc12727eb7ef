"""What a command prints, as transcripts show it: lines of the standard output have a bar, those of the standard error
an exclamation mark. Why a command fails has a bar, as it never goes elsewhere.
"""

from collections.abc import Iterator

from click.testing import Result

WHY = ("Error: ", "Usage: ")


def printed(result: Result) -> Iterator[str]:
    """In the order in which they were printed."""
    aside = _beside_why_it_failed(result)
    for row in result.output.splitlines():
        is_aside = bool(aside) and row == aside[0] and row not in result.stdout.splitlines()
        if is_aside:
            aside.pop(0)
        yield f"{'!' if is_aside else '|'} {row}".rstrip()


def _beside_why_it_failed(result: Result) -> list[str]:
    rows = result.stderr.splitlines()
    begins = [at for at, row in enumerate(rows) if row.startswith(WHY)]
    return rows[: begins[0]] if result.exit_code and begins else rows
