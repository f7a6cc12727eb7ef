"""The two that are compared, and how they take turns."""

import mmap
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from bench.node import penstock_command
from bench.process import BrokerProcess, Command
from bench.versus.kafka import kafka_command

KAFKA, PENSTOCK, BARE = "kafka", "penstock", "bare"
COMMANDS: Mapping[str, Command] = {KAFKA: kafka_command, PENSTOCK: penstock_command}
Sample = dict[str, float]
"""The figures of one run by their names."""
Samples = dict[str, list[Sample]]
"""The runs of each system."""
TOUCHED_SHARE = 0.7
PAGE = mmap.PAGESIZE
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a run does. `scale` multiplies the amount of data of each load."""

    pairs: int
    scale: float
    console: Console

    def records(self, count: int) -> int:
        """The scaled amount, in whole thousands."""
        return max(1, round(count * self.scale / 1000)) * 1000

    def say(self, text: str) -> None:
        """Show progress."""
        self.console.print(f"  [dim]{text}[/dim]", highlight=False)


@contextmanager
def running(system: str, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A broker that keeps its data in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    broker = BrokerProcess(COMMANDS[system], directory, settings or {})
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-versus-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def both(settings: Mapping[str, str] | None = None) -> Iterator[dict[str, BrokerProcess]]:
    """Both systems on empty directories, at once: the one that is not asked is idle."""
    with scratch() as directory, ExitStack() as stack:
        yield {name: stack.enter_context(running(name, directory / name, settings)) for name in COMMANDS}


def in_turn(
    effort: Effort, case: str, brokers: Mapping[str, BrokerProcess], work: Callable[[BrokerProcess, int], Sample]
) -> Samples:
    """Kafka, Penstock, Kafka, Penstock …: one pair to warm up that is not counted, then the pairs that are."""
    samples: Samples = {name: [] for name in brokers}
    for number in range(effort.pairs + 1):
        for name, broker in brokers.items():
            sample = work(broker, number)
            if number:
                samples[name].append(sample)
            shown = ", ".join(f"{key} {value:,.4g}" for key, value in sample.items())
            effort.say(f"{case} · {name} {f'{number}/{effort.pairs}' if number else 'warm-up'}: {shown}")
    return samples


def touch_memory() -> None:
    """Touch most of the free memory and give it back: the page cache of the runs is made of it.

    On a virtual machine the first touch of memory can cost ten times what a later one does.
    """
    size = int(psutil.virtual_memory().available * TOUCHED_SHARE) // PAGE * PAGE
    with mmap.mmap(-1, size) as memory, memoryview(memory) as view, view[::PAGE] as pages:
        pages[:] = bytes(size // PAGE)
