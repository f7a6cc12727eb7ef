"""A node under measurement: a real process, as `penstock start` makes it, with its own default settings."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.process import BrokerProcess, Command

BYTECODE: Final = Path(sys.prefix) / "bench-bytecode"
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}
AS_INSTALLED: Final = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
"""Defaults of Kafka and of an installation, where clusters for tests have others, which elect faster."""


def own_environment() -> dict[str, str]:
    """The node finds its modules compiled, as an installed package's are, whatever this shell says."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def source_environment() -> dict[str, str]:
    """Finds the modules of this checkout, `bench` among them."""
    tree = Path(__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'src'}"}


def penstock_command(directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], dict[str, str]]:
    options = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(directory / "data"), **settings}
    arguments = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "penstock", "start", *arguments], own_environment()


@contextmanager
def scratch() -> Iterator[Path]:
    """Deleted afterwards, whatever still writes into the directory."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def running(command: Command, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    directory.mkdir(parents=True, exist_ok=True)
    broker = BrokerProcess(command, directory, settings or {})
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def running_node(
    settings: Mapping[str, str] | None = None, command: Command = penstock_command
) -> Iterator[BrokerProcess]:
    with scratch() as directory, running(command, directory, settings) as node:
        yield node
