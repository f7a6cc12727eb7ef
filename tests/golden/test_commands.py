"""The transcript of commands: what each asks of a cluster, and what it prints of the answers.

The fake broker of the admin client's transcript answers. A word that is an object of JSON, begins as a file of access
rules does or as a line of the audit log, goes to the command as a file.
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from click.testing import CliRunner
from tests.golden.test_admin import Sampling, said
from tests.unit.client.admin.test_refusals import OF_THE_CLUSTER
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main

FILES = {"{": "json", "[[rule]]": "toml", "Principal = ": "log"}
"""By the beginning of a word, what kind of file it is; semicolons end the lines of those that are not JSON."""


class CommandLecture:
    def __init__(self, path: Path) -> None:
        self._path = path

    def handle(self, line: str) -> Iterable[str]:
        sampling = Sampling()
        with served_in_a_thread(cast("FakeCluster", sampling)) as broker:
            words = [self._word(number, word) for number, word in enumerate(shlex.split(line))]
            address = str(broker.address)
            result = CliRunner().invoke(main, [*words, "--bootstrap-server", address])
            output = result.output.replace(address, "ADDRESS").replace(str(self._path), "PATH")
            yield from (said(it) for header, it in broker.requests if header.api_key not in OF_THE_CLUSTER)
        yield from (f"| {row}".rstrip() for row in output.splitlines())
        if result.exit_code:
            yield f"exit {result.exit_code}"

    def _word(self, number: int, word: str) -> str:
        kind = next((name for begin, name in FILES.items() if word.startswith(begin)), None)
        if kind is None:
            return word
        path = self._path / f"{number}.{kind}"
        path.write_text(word.replace("; ", "\n"))
        return str(path)


def test_commands(tmp_path: Path, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("commands.txt", CommandLecture(tmp_path).handle)
