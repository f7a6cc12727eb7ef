"""The transcript of usage: which options of a command go together, and what it says where they do not.

Each step has one condition more or less than another one. `goes on` stands for what is not refused, whatever comes of
it at the fake broker that answers.
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from click.testing import CliRunner
from tests.golden.test_commands import Reached
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main

FILE = "FILE"
WRONG_USAGE = 2


def test_usage(tmp_path: Path, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with served_in_a_thread(cast("FakeCluster", Reached())) as broker:

        def handle(line: str) -> Iterable[str]:
            words = [str(file) if word == FILE else word for word in shlex.split(line)]
            at = "--bootstrap-controller" if "--bootstrap-controller" in words else "--bootstrap-server"
            words = [word for word in words if word != at]
            result = CliRunner().invoke(main, [*words, at, str(broker.address)])
            assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
            if result.exit_code != WRONG_USAGE:
                return ["goes on"]
            told = result.output[result.output.index("Error: ") :]
            return [" ".join(told.split()).replace(str(file), FILE)]

        transcript("usage.txt", handle)
