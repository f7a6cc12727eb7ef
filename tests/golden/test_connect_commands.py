"""The transcript of `penstock connect`: what each command asks of a worker, and what it prints of the answer.

A line `answer STATUS JSON` says what the worker answers from then on, `-` for nothing; a word that begins with `file: `
goes to the command as a file, whose lines semicolons end.
"""

import json
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from click.testing import CliRunner
from tests.golden.printed import printed

from penstock.cli.main import main

TEXT = "file: "


class Worker(HTTPServer):
    status = 200
    text = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, str]] = {}
        """Of paths that are answered in their own way."""


class Answering(BaseHTTPRequestHandler):
    server: Worker

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        user = self.headers.get("Authorization")
        shown = json.dumps(json.loads(body), sort_keys=True) if body else ""
        self.server.asked.append(" ".join(filter(None, (self.command, self.path, shown, user))))
        status, text = self.server.answers.get(self.path, (self.server.status, self.server.text))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815  # as the server calls them

    def log_message(self, *_: object) -> None:
        """Nothing goes to the standard error."""


@contextmanager
def served() -> Iterator[Worker]:
    with Worker() as worker:
        thread = threading.Thread(target=worker.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield worker
        finally:
            worker.shutdown()
            thread.join()


def test_connect_commands(tmp_path: Path, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    with served() as worker:
        at = f"127.0.0.1:{worker.server_port}"

        def handle(line: str) -> Iterable[str]:
            if line.startswith("answer "):
                _, status, text = line.split(" ", 2)
                worker.status, worker.text = int(status), text.removeprefix("-")
                return
            words = []
            for number, word in enumerate(shlex.split(line)):
                path = tmp_path / f"{number}.{'json' if '{' in word else 'properties'}"
                if word.startswith(TEXT):
                    path.write_text(word.removeprefix(TEXT).replace("; ", "\n"))
                words.append(str(path) if word.startswith(TEXT) else word)
            worker.asked.clear()
            result = CliRunner().invoke(main, ["connect", "--worker", at, *words])
            assert result.exception is None or isinstance(result.exception, SystemExit)
            yield from worker.asked
            output = "\n".join(printed(result)).replace(at, "ADDRESS").replace(str(tmp_path), "PATH")
            yield from output.splitlines()
            if result.exit_code:
                yield f"exit {result.exit_code}"

        transcript("connect_commands.txt", handle)
