"""The transcript of `penstock pipeline` for jobs: what each command asks of a worker, and what it prints of the answer.

A line `at PATH STATUS JSON` says what the worker answers there from then on, `-` for nothing; elsewhere it answers with
nothing. A word that begins with `file: ` goes to the command as a file, of YAML unless it says `python: `, whose lines
semicolons end. Clusters at `up` have the topics `a` and `b`, others do not answer. `problems` are what Spark
is to find from then on, and after `no spark` it is not there.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.golden.printed import printed
from tests.golden.test_connect_commands import Worker, served
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.work import pipeline_jobs
from penstock.pipeline.jobs import commands
from penstock.pipeline.spec.files import load_yaml

FILES = {"file: ": "job.yaml", "python: ": "job.py", "packages: ": "packages.txt", "module: ": "names.py"}
CHANGING = (
    (re.compile(r'"deployed": "[^"]+"'), '"deployed": "NOW"'),
    (re.compile(r'"pipeline.code": "[^"]+"'), '"pipeline.code": "CODE"'),
)


class PipelineLecture:
    def __init__(self, path: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._worker = worker
        self._has_spark = True
        self._planned: list[str] = []
        self._at = f"127.0.0.1:{worker.server_port}"
        monkeypatch.setattr(pipeline_jobs, "run_with_admin", self._topics)
        monkeypatch.setattr(pipeline_jobs, "problems_in", self._problems)
        monkeypatch.setattr(pipeline_jobs, "find_spec", lambda name: self._has_spark or None)
        monkeypatch.setattr(commands, "cache_directory", lambda: path / "cache")
        self._imported_from: list[str] = []
        monkeypatch.setattr(pipeline_jobs, "sys", stand_in(sys, path=self._imported_from))
        self._problems_found: list[str] = []

    def handle(self, line: str) -> Iterable[str]:
        if line.startswith("at "):
            _, path, status, text = line.split(" ", 3)
            self._worker.answers[path] = int(status), text.removeprefix("-")
            return
        if line.startswith("problems"):
            self._problems_found = line.split()[1:]
            return
        if line == "no spark":
            self._has_spark = False
            return
        words = [self._word(word) for word in shlex.split(line)]
        self._worker.asked.clear()
        result = CliRunner().invoke(main, ["pipeline", *words, "--worker", self._at])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        for asked in self._planned + self._worker.asked:
            for pattern, word in CHANGING:
                asked = pattern.sub(word, asked)
            yield self._shown(asked)
        self._planned.clear()
        yield from map(self._shown, printed(result))
        if result.exit_code:
            yield f"exit {result.exit_code}"

    def _shown(self, text: str) -> str:
        return text.replace(self._at, "ADDRESS").replace(str(self._path), "PATH")

    def _word(self, word: str) -> str:
        for begin, name in FILES.items():
            if word.startswith(begin):
                path = self._path / name
                path.write_text(word.removeprefix(begin).replace("; ", "\n") + "\n")
                return str(path)
        return word

    def _topics(self, servers: str, properties: Mapping[str, str], work: object, *, patience_ms: int) -> list[str]:
        self._planned.append(f"topics of {servers} within {patience_ms}")
        if not servers.startswith("up"):
            raise click.ClickException("it does not answer")
        return ["a", "b"]

    def _problems(
        self, file: Path, settings: Mapping[str, str], values: Mapping[str, str], deployed: Callable[[Any], Any]
    ) -> list[str]:
        self._planned.append(f"plan {file} {dict(settings)} {dict(values)}")
        if self._imported_from:
            names = sorted(one.name for one in Path(self._imported_from.pop()).iterdir())
            self._planned.append(f"with {', '.join(names)}")
        if file.suffix == ".yaml":
            spec = deployed(load_yaml(file.read_text(), "job", values=values))
            options = [dict(one.options) for one in (*spec.sources.values(), *spec.sinks)]
            self._planned.append(f"from {spec.checkpoint}, {options}")
        return list(self._problems_found)


def test_pipeline_commands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None],
) -> None:
    with served() as worker:
        transcript("pipeline_commands.txt", PipelineLecture(tmp_path, worker, monkeypatch).handle)
