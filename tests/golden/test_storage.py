"""The transcript of `penstock storage`: what nodes' directories are formatted with, and what is wrong with them.

`file KEY=VALUE …` writes what the node's file says besides its id and directories, `without PATHS` removes files,
`says PATH KEY=VALUE …` writes others, and `snapshot PATH` shows what a directory's first snapshot holds. Ids that are
drawn stand as ID.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.golden.printed import printed

from penstock.cli.dump.dump_log import command as dump_log
from penstock.cli.main import main
from penstock.cli.nodes import storage

SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
DRAWN = re.compile(r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*[A-Z0-9])[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])")
WHEN = re.compile(r'"lastContainedLogTimestamp":1\d{12}')
NAMED = {"MvDxzVmcRsaTz33bUuRU6A", "JEXY6aqzQY-32P5TStzaFg"}


class StorageLecture:
    def __init__(self, path: Path) -> None:
        self._path = path

    def handle(self, line: str) -> Iterable[str]:
        match shlex.split(line):
            case ["file", *pairs]:
                here = ["node.id=7", f"log.dirs={self._path}/a,{self._path}/b"]
                self._written("file", [*here, *pairs])
            case ["says", name, *pairs]:
                self._written(name, pairs)
            case ["without", *names]:
                for name in names:
                    (self._path / name).unlink()
            case ["snapshot", name]:
                path = self._path / name / SNAPSHOT
                told = CliRunner().invoke(dump_log, ["--cluster-metadata-decoder", "--files", str(path)]).output
                rows = [row.partition("headerKeys: [] ")[2] for row in told.splitlines() if row.startswith("| ")]
                return [f"| {self._shown(row)}" for row in rows]
            case words:
                return self._invoked(words)
        return []

    def _written(self, name: str, pairs: list[str]) -> None:
        (self._path / name).parent.mkdir(parents=True, exist_ok=True)
        (self._path / name).write_text("".join(f"{pair}\n" for pair in pairs))

    def _invoked(self, words: list[str]) -> Iterable[str]:
        given = [*words, "-c", str(self._path / "file")] if words[0] in ("format", "info") else words
        result = CliRunner().invoke(main, ["storage", *given])
        yield from map(self._shown, printed(result))
        if result.exit_code:
            yield f"exit {result.exit_code}"

    def _shown(self, text: str) -> str:
        text = WHEN.sub('"lastContainedLogTimestamp":NOW', text.replace(str(self._path), "PATH"))
        return DRAWN.sub(lambda it: it[0] if it[0] in NAMED else "ID", text)


def test_storage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None],
) -> None:
    monkeypatch.setattr(storage, "token_bytes", bytes)  # a salt of zeros
    transcript("storage.txt", StorageLecture(tmp_path).handle)
