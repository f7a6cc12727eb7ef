"""Work beside the rest: in a thread for as long as a block lasts, or a function in a process of its own."""

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Generic, ParamSpec, Self, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Background:
    """`run` lasts until the block ends, which sets `is_over`."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.is_over.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Child(Generic[Result]):
    """Calls a function of a module, with arguments that can be pickled."""

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
