"""The transcript of usage: which options of a command go together, and what it says where they do not.

Each step has one condition more or less than another one. `goes on` stands for what is not refused, whatever comes of
it at the fake broker that answers. Another transcript has files that commands read, and what is wrong with them.
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from click.testing import CliRunner
from tests.golden.test_commands import TEXT, Reached
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main

FILE = "FILE"
WRONG_USAGE = 2
Transcript = Callable[[str, Callable[[str], Iterable[object]]], None]


def test_usage(tmp_path: Path, transcript: Transcript) -> None:
    with served_in_a_thread(cast("FakeCluster", Reached())) as broker:

        def handle(line: str) -> Iterable[str]:
            code, told = _invoked(line, tmp_path, str(broker.address))
            return [told if code == WRONG_USAGE else "goes on"]

        transcript("usage.txt", handle)


def test_files(tmp_path: Path, transcript: Transcript) -> None:
    with served_in_a_thread(cast("FakeCluster", Reached())) as broker:

        def handle(line: str) -> Iterable[str]:
            code, told = _invoked(line, tmp_path, str(broker.address))
            return [told or "fails" if code else "goes on"]

        transcript("files.txt", handle)


def _invoked(line: str, folder: Path, address: str) -> tuple[int, str]:
    """The exit code, and what is said of a failure. A word that begins with a brace or `file: ` is a file's text."""
    file = folder / "file"
    file.write_text("")
    words = shlex.split(line)
    for number, word in enumerate(words):
        if word.startswith(("{", TEXT)):
            file.write_text(word.removeprefix(TEXT).replace("; ", "\n"))
            words[number] = FILE
    at = "--bootstrap-controller" if "--bootstrap-controller" in words else "--bootstrap-server"
    given = [str(file) if word == FILE else word for word in words if word != at]
    result = CliRunner().invoke(main, [*given, at, address])
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
    _, error, why = result.output.partition("Error: ")
    return result.exit_code, " ".join(f"{error}{why}".replace(str(file), FILE).split())
