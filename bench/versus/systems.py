"""The two that are compared, and how they take turns."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rich.console import Console

from bench.node import penstock_command, running, scratch
from bench.process import BrokerProcess, Command
from bench.versus.kafka import kafka_command

KAFKA, PENSTOCK, BARE = "kafka", "penstock", "bare"
COMMANDS: Mapping[str, Command] = {KAFKA: kafka_command, PENSTOCK: penstock_command}
Sample = dict[str, float]
"""The figures of one run by their names."""
Samples = dict[str, list[Sample]]
"""The runs of each system."""
MB = 1_000_000
Running = TypeVar("Running")
"""What a question asks: one broker, or several as a cluster."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a run does. `scale` multiplies the amount of data of each load."""

    pairs: int
    scale: float
    console: Console
    case: str = ""
    """Only cases that have this in their names are measured."""

    def records(self, count: int) -> int:
        """The scaled amount, in whole thousands."""
        return max(1, round(count * self.scale / 1000)) * 1000

    def show(self, case: str, system: str, number: int, sample: Sample) -> None:
        """Show what a run gave."""
        shown = ", ".join(f"{key} {value:,.4g}" for key, value in sample.items())
        self.say(f"{case} · {system} {f'{number}/{self.pairs}' if number else 'warm-up'}: {shown}")

    def say(self, text: str) -> None:
        """Show progress."""
        self.console.print(f"  [dim]{text}[/dim]", highlight=False)


@contextmanager
def both(settings: Mapping[str, str] | None = None) -> Iterator[dict[str, BrokerProcess]]:
    """Both systems on empty directories, at once: the one that is not asked is idle."""
    with scratch() as directory, ExitStack() as stack:
        yield {name: stack.enter_context(running(COMMANDS[name], directory / name, settings)) for name in COMMANDS}


def in_turn(
    effort: Effort,
    case: str,
    brokers: Mapping[str, Running],
    work: Callable[[Running, int], Sample],
    bare: Callable[[int], Sample] | None = None,
) -> Samples:
    """Kafka, Penstock, the bare loop, Kafka …: one round to warm up that is not counted, then those that are.

    A case that is not asked for has no samples.
    """
    turns: dict[str, Callable[[int], Sample]] = {name: partial(work, broker) for name, broker in brokers.items()}
    if bare is not None:
        turns[BARE] = bare
    samples: Samples = {name: [] for name in turns}
    if effort.case not in case:
        return samples
    for number in range(effort.pairs + 1):
        for name, turn in turns.items():
            sample = turn(number)
            if number:
                samples[name].append(sample)
            effort.show(case, name, number, sample)
    return samples
