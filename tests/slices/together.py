"""All attacks at once on a node of its own, and what its memory and a neighbour's round trips are meanwhile."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bench.process import BrokerProcess, free_ports, penstock_command, running_node
from tests.slices.attacks import ATTACKS, Target, carry_out, fill
from tests.wire.raw_client import RawClient, batch_of


def round_trips_ms(address: str, seconds: float) -> list[float]:
    """Of a producer with one record in each request, five milliseconds apart; the longest one is last."""
    batch, end, found = batch_of(b"x" * 100), time.perf_counter() + seconds, list[float]()
    with RawClient(address) as client:
        while (began := time.perf_counter()) < end:
            client.produce("quiet", batch)
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
    return sorted(found)


def command(
    controller: str, directory: Path, port: int, settings: Mapping[str, str]
) -> tuple[Sequence[str], Mapping[str, str] | None]:
    both = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
    }
    return penstock_command(directory, port, both | dict(settings))


@contextmanager
def attacked(target: Target, names: Sequence[str]) -> Iterator[None]:
    """Each attack has a process: together in one they would take turns, and attack a little."""
    context = get_context("spawn")
    is_over = context.Event()
    processes = [context.Process(target=carry_out, args=(target, name, is_over)) for name in names]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        is_over.set()
        for process in processes:
            process.join()


@contextmanager
def watched(node: BrokerProcess) -> Iterator[list[float]]:
    found, is_over = [node.resident_mb], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            found.append(node.resident_mb)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


def main(seconds: float, names: Sequence[str]) -> None:
    (controller,) = free_ports(1)
    with running_node({"num.partitions": "1"}, partial(command, f"127.0.0.1:{controller}")) as node:
        target = Target(node.address, f"127.0.0.1:{controller}", fill(node.address))
        alone = round_trips_ms(node.address, 5)
        print(f"alone: {node.resident_mb:.0f} MB, p99 {alone[len(alone) * 99 // 100]:.1f} ms", flush=True)
        with watched(node) as memory, attacked(target, names):
            beside = round_trips_ms(node.address, seconds)
    print(
        f"attacked: at most {max(memory):.0f} MB, median {statistics.median(memory):.0f} MB; "
        f"{len(beside)} round trips, p50 {beside[len(beside) // 2]:.1f} ms, "
        f"p99 {beside[len(beside) * 99 // 100]:.1f} ms, at most {beside[-1]:.1f}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:] or [attack.name for attack in ATTACKS])
