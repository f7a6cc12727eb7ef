"""Work that is done in a process of its own: a function of a module, called with arguments of plain values."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Child(Generic[Result]):
    def __init__(self, work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> None:
        self._name = f"{work.__module__}.{work.__qualname__}"
        call = pickle.dumps((work, arguments, named)).hex()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.child", call], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def result(self, limit_s: float = 300) -> Result:
        """RuntimeError with the output of the process where the function failed."""
        try:
            out, said = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise RuntimeError(f"{self._name} did not end in {limit_s:g} s") from None
        if self._process.returncode:
            raise RuntimeError(f"{self._name} failed: {said.decode()[-3000:]}")
        found: Result = pickle.loads(out)
        return found


if __name__ == "__main__":
    work, arguments, named = pickle.loads(bytes.fromhex(sys.argv[1]))
    sys.stdout.buffer.write(pickle.dumps(work(*arguments, **named)))
