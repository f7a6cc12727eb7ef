"""A node under measurement: a real process, as `penstock start` makes it, with its own default settings."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.process import BrokerProcess, Command

BYTECODE: Final = Path(sys.prefix) / "bench-bytecode"


def own_environment() -> dict[str, str]:
    """That of a node: it finds its modules compiled, as those of an installed package are, whatever this shell says."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**others, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def penstock_command(directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], dict[str, str]]:
    """How a node is started."""
    options = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(directory / "data"), **settings}
    arguments = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "penstock", "start", *arguments], own_environment()


@contextmanager
def running_node(command: Command = penstock_command, **settings: str) -> Iterator[BrokerProcess]:
    """A node on an empty directory; keys are written with `_` for `.`."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    node = BrokerProcess(command, directory, {key.replace("_", "."): value for key, value in settings.items()})
    try:
        yield node
    finally:
        node.stop()
        shutil.rmtree(directory, ignore_errors=True)
