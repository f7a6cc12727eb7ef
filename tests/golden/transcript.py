"""Golden transcripts: a text that reads like a lecture is the test.

A transcript is a sequence of blocks with an empty line between them. A block with a line `----` is a step: above that
line stand comments (`#`) and commands, below it what the machine answers to them; `ok` stands for nothing at all. A
block without that line is prose. `pytest tests/golden --rewrite` writes the answers anew; read the difference before
you commit it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

SEPARATOR = "----"


def answers(commands: str, handle: Callable[[str], Iterable[object]]) -> str:
    """What `handle` says to each command line of one step, a line per effect."""
    lines = [line for line in commands.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(str(effect) for line in lines for effect in handle(line)) or "ok"


def play(path: Path, handle: Callable[[str], Iterable[object]], *, rewrite: bool = False) -> None:
    """Plays the transcript at `path`: the first step that answers otherwise than written fails the test."""
    blocks = []
    steps = 0
    for block in path.read_text(encoding="utf-8").strip("\n").split("\n\n"):
        commands, separator, expected = f"{block}\n".partition(f"\n{SEPARATOR}\n")
        if not separator:
            blocks.append(block)
            continue
        steps += 1
        actual = answers(commands, handle)
        if not rewrite:
            assert actual == expected.rstrip("\n"), f"{path.name}, at:\n{commands}\n{SEPARATOR}\n{actual}"
        blocks.append(f"{commands}\n{SEPARATOR}\n{actual}")
    assert steps, f"{path.name} has no step"
    if rewrite:
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
