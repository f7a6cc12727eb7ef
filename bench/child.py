"""Work that is done in a process of its own: `python -m MODULE WORD …` that prints one JSON object."""

import json
import subprocess
import sys
from typing import Any


class Child:
    """A process that was started."""

    def __init__(self, module: str, *words: object) -> None:
        self._words = [sys.executable, "-m", module, *map(str, words)]
        self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def result(self, limit_s: float = 300) -> Any:
        """What it printed; RuntimeError with what it said where it failed."""
        try:
            out, said = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise RuntimeError(f"{' '.join(self._words[2:])} did not end in {limit_s:g} s") from None
        if self._process.returncode:
            raise RuntimeError(f"{' '.join(self._words[2:])} failed: {said[-3000:]}")
        return json.loads(out)

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate()


def answer(result: object) -> None:
    """What the child has to say."""
    json.dump(result, sys.stdout)
