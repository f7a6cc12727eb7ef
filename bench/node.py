"""A node under measurement: a real process, as `penstock start` makes it, with its own default settings."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.process import BrokerProcess, Command


def penstock_command(directory: Path, port: int, settings: Mapping[str, str]) -> tuple[Sequence[str], None]:
    """How a node is started."""
    options = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(directory / "data"), **settings}
    arguments = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "penstock", "start", *arguments], None


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
