"""The transcript of `penstock security`: a folder is made, looked at, renewed, gets another authority; a doctor's way.

`doctor` comes to a secured cluster of one node; words behind a bar are changes of the client's file. Dates, ports,
folders and ids stand for what they are. `later DAYS` moves the clock, `signs N` is what an interrupted `--sign` leaves,
and `strange` gives node 1 a certificate that nobody here has signed.
"""

import datetime as dt
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.golden.printed import printed

from penstock.cli.main import main
from penstock.cli.security import folders
from penstock.metadata.configs.pairs import properties_text
from penstock.testing import Cluster
from penstock.testing.secured.folder import SecuredFolder

NEW_YEAR = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
CHANGED = (
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC"), "DATE"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"at port \d+"), "at port PORT"),
    (re.compile(r"nodes, \S{22},"), "nodes, ID,"),
)


class SecurityLecture:
    def __init__(self, path: Path, cluster: Cluster) -> None:
        self._path = path
        self._cluster = cluster
        self._now = NEW_YEAR

    def now(self) -> dt.datetime:
        return self._now

    def handle(self, line: str) -> Iterable[str]:
        match line.split():
            case ["later", days]:
                self._now += dt.timedelta(days=float(days))
                return
            case ["signs", number]:
                SecuredFolder.found(self._path / "made", self._now).authorities.let_sign(int(number))
                return
            case ["strange"]:
                other = ["init", "--nodes", "localhost", "--directory", str(self._path / "other")]
                assert CliRunner().invoke(main, ["security", *other]).exit_code == 0
                shutil.copy(self._path / "other/nodes/node-1/node.pem", self._path / "made/nodes/node-1/node.pem")
                return
        command, _, changes = line.partition(" | ")
        words = shlex.split(command)
        if words[0] == "doctor":
            words += ["--command-config", self._file(changes)]
        else:
            words += ["--directory", str(self._path / "made")]
        result = CliRunner().invoke(main, ["security", *words])
        output = "\n".join(printed(result)).replace(str(self._path), "PATH")
        for pattern, word in CHANGED:
            output = pattern.sub(word, output)
        yield from output.splitlines()
        if result.exit_code:
            yield f"exit {result.exit_code}"

    def _file(self, changes: str) -> str:
        properties = self._cluster.client_properties("app") | dict(pair.split("=", 1) for pair in changes.split())
        file = self._path / "client.properties"
        file.write_text(properties_text(properties, "app"))
        return str(file)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(secure=True) as it:
        yield it


def test_security(
    tmp_path: Path,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None],
) -> None:
    lecture = SecurityLecture(tmp_path, cluster)
    monkeypatch.setattr(folders, "now", lecture.now)
    transcript("security.txt", lecture.handle)
