"""`python -m tests.crowds [QUESTION …]`: groups of very many members, beside Kafka and beside what they may."""

import argparse
import sys
from collections.abc import Callable

from bench.measure import asked
from bench.versus.page import table
from bench.versus.results import answered
from bench.versus.systems import Effort, Line
from rich.console import Console
from tests.crowds.joining import joining
from tests.crowds.loading import loading

QUESTIONS: dict[str, tuple[str, Callable[[Effort], list[Line]]]] = {
    "joining": ("A thousand members join within a second, then one more comes, and goes", joining),
    "loading": ("A coordinator is started that finds a hundred thousand members", loading),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crowds", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="counted pairs of each (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the members (1), in whole thousands")
    words = asked(parser, "question", QUESTIONS)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for name in words.names:
        title, ask = QUESTIONS[name]
        console.print(f"[bold]{name}[/bold] {title}")
        lines = ask(Effort(words.pairs, words.scale, console))
        console.print(table(answered(name, title, f"python -m tests.crowds {name}", lines)))


if __name__ == "__main__":
    main()
