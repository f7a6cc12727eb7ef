"""The two systems, how they take turns, and the lines that this gives: ratios, and bars for them."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

from rich.console import Console

from bench.process import BrokerProcess, Command, free_ports, penstock_command, running, scratch
from bench.versus.kafka import kafka_command, new_cluster_id, server_settings
from penstock.testing.layout import format_as_one_cluster, replica_settings
from penstock.testing.quorum_view import active_controller, known_brokers, wait_until

KAFKA, PENSTOCK, BARE = "kafka", "penstock", "bare"
COMMANDS: Mapping[str, Command] = {KAFKA: kafka_command, PENSTOCK: penstock_command}
Sample = dict[str, float]
"""The figures of one run by their names."""
Samples = dict[str, list[Sample]]
MB = 1_000_000
Running = TypeVar("Running")
"""One broker, or several as a cluster."""


@dataclass(frozen=True, slots=True)
class Effort:
    """`scale` multiplies the amount of data of each load."""

    pairs: int
    scale: float
    console: Console
    case: str = ""
    """Only cases with this in their names are measured."""

    def records(self, count: int) -> int:
        """Scaled, in whole thousands."""
        return max(1, round(count * self.scale / 1000)) * 1000

    def show(self, case: str, system: str, number: int, sample: Sample) -> None:
        shown = ", ".join(f"{key} {value:,.4g}" for key, value in sample.items())
        self.say(f"{case} · {system} {f'{number}/{self.pairs}' if number else 'warm-up'}: {shown}")

    def say(self, text: str) -> None:
        self.console.print(f"  [dim]{text}[/dim]", highlight=False)


@contextmanager
def both(settings: Mapping[str, str] | None = None) -> Iterator[dict[str, BrokerProcess]]:
    """On empty directories, at once: the one that is not asked is idle."""
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


Better = Literal["higher", "lower"]
EVEN = 0.9
"""What a median that misses its bar must reach of it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Read from each run. `bar`: how many times as good as Kafka Penstock has to be."""

    name: str
    unit: str
    better: Better
    bar: float | None = 1.0
    limit: float | None = None
    """The most that Penstock may cost, in costs of the bare loop."""
    own: float | None = None
    """A bound for Penstock's figure, whatever Kafka's is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure in one case. The n-th values of both systems are a pair."""

    case: str
    figure: Figure
    kafka: tuple[float, ...]
    penstock: tuple[float, ...]
    bare: tuple[float, ...] = ()
    when: str = ""

    @property
    def ratios(self) -> tuple[float, ...]:
        """Of each pair, how many times as good Penstock is: above 1 it is ahead, whichever way is better."""
        pairs = zip(self.penstock, self.kafka, strict=True)
        if self.figure.better == "higher":
            return tuple(_times(ours, theirs) for ours, theirs in pairs)
        return tuple(_times(theirs, ours) for ours, theirs in pairs)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def times_bare(self) -> float | None:
        """Penstock's distance from the bare loop: its cost by the loop's, or the loop's rate by its own."""
        if not self.bare:
            return None
        ours, limit = statistics.median(self.penstock), statistics.median(self.bare)
        return ours / limit if self.figure.better == "lower" else limit / ours

    @property
    def verdict(self) -> str:
        """`met`; `even` where the median is within a tenth of the bar; `short` where it is not."""
        words = []
        if self.figure.bar is not None:
            if self.ratio >= self.figure.bar:
                words.append("met")
            else:
                words.append("even" if self.ratio >= self.figure.bar * EVEN else "short")
        if self.figure.limit is not None and self.times_bare is not None and self.times_bare > self.figure.limit:
            words.append(f"over {self.figure.limit:g} × bare")
        if self.figure.own is not None:
            ours, is_rate = statistics.median(self.penstock), self.figure.better == "higher"
            is_met = ours >= self.figure.own if is_rate else ours <= self.figure.own
            words.append(f"{'met' if is_met else 'missed'}: {'≥' if is_rate else '≤'} {self.figure.own:g}")
        return ", ".join(words)


def _times(one: float, other: float) -> float:
    return 1.0 if one == other else one / max(other, 1e-9)


def lines_of(case: str, figures: Sequence[Figure], samples: Samples) -> list[Line]:
    """None where the case was not measured."""
    if not samples[PENSTOCK]:
        return []

    def values(system: str, figure: Figure) -> tuple[float, ...]:
        return tuple(sample[figure.name] for sample in samples.get(system, []) if figure.name in sample)

    return [Line(case, one, values(KAFKA, one), values(PENSTOCK, one), values(BARE, one)) for one in figures]


def sample_of(figures: Sequence[Figure], *values: float) -> Sample:
    return dict(zip((one.name for one in figures), values, strict=True))


def compared(
    effort: Effort,
    question: str,
    figures: Sequence[Figure],
    systems: Mapping[str, Running],
    cases: Mapping[str, Callable[[Running, int], Sample]],
    bare: Mapping[str, Callable[[int], Sample]] | None = None,
) -> list[Line]:
    lines = []
    for case, work in cases.items():
        samples = in_turn(effort, f"{question} {case}".strip(), systems, work, (bare or {}).get(case))
        lines += lines_of(case, figures, samples)
    return lines


NODES: Final = (1, 2, 3)
SYSTEMS: Final = (KAFKA, PENSTOCK)
PATIENCE_S: Final = 300.0


class ThreeNodes:
    """Each node knows the others. `address` has the bootstrap servers, as each question asks a broker for."""

    def __init__(self, system: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.system = system
        self._settings = settings or {}
        ports = free_ports(2 * len(NODES))
        self._ports = dict(zip(NODES, ports, strict=False))
        self._controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self.address = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self._directories = {node: directory / f"node-{node}" for node in NODES}
        for path in self._directories.values():
            path.mkdir(parents=True)
        if system == KAFKA:
            self._command: Command = partial(kafka_command, cluster_id=new_cluster_id())
        else:
            format_as_one_cluster({node: path / "data" for node, path in self._directories.items()})
            self._command = penstock_command
        self.brokers: dict[int, BrokerProcess] = {}
        try:
            for node in NODES:
                self._launch(node)
            for node in NODES:
                self._wait_for(node)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        return [broker.pid for broker in self.brokers.values()]

    count = len(NODES)

    def cpu_s(self) -> float:
        return sum(broker.cpu().total for broker in self.brokers.values())

    def controller(self) -> int:
        addresses = [f"127.0.0.1:{port}" for port in self._controllers.values()]
        return wait_until(lambda: active_controller(addresses), PATIENCE_S, "an active controller")

    def kill(self, node: int) -> None:
        self.brokers.pop(node).kill()

    def start(self, node: int) -> None:
        """After a kill; returns when all know it again."""
        self._launch(node)
        self._wait_for(node)

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.brokers.clear()

    def _launch(self, node: int) -> None:
        port, directory = self._ports[node], self._directories[node]
        own = server_settings(node, directory / "data", port, self._controllers[node], self._controllers)
        settings = {**own, **replica_settings(len(NODES)), **self._settings}
        self.brokers[node] = BrokerProcess(self._command, directory, settings, port=port, is_alone=False)

    def _wait_for(self, node: int) -> None:
        self.brokers[node].await_first_answer()
        for other in self.brokers:
            wait_until(partial(self._knows, other, node), PATIENCE_S, f"{other} knows {node}")

    def _knows(self, one: int, other: int) -> bool | None:
        return other in known_brokers(self.brokers[one].address) or None


@contextmanager
def three_of_each() -> Iterator[Mapping[str, ThreeNodes]]:
    """At once; the ones that are not asked are idle."""
    with ExitStack() as stack:
        yield {system: stack.enter_context(three_nodes(system)) for system in SYSTEMS}


@contextmanager
def three_nodes(system: str, settings: Mapping[str, str] | None = None) -> Iterator[ThreeNodes]:
    with scratch() as directory:
        nodes = ThreeNodes(system, directory, settings)
        try:
            yield nodes
        finally:
            nodes.stop()
