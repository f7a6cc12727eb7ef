"""A node in a process of its own, started with the command `penstock start`."""

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

from penstock.node.assembly.properties import ENVIRONMENT_PREFIX

START_SECONDS = 60
STOP_SECONDS = 30
KEPT_LINES = 200
_ADDRESS = re.compile(r"listens on\s+\w+://([^\s,]+)")


class ProcessNode:
    """Runs from its creation until `stop` or `kill`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "penstock", "start"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.output: deque[str] = deque(maxlen=KEPT_LINES)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self._announced: Future[str] = Future()
        self._reader = threading.Thread(target=self._read_output, name="penstock-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """With SIGTERM. RuntimeError with the output if the node ended with an error, or had to be killed."""
        self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the node did not stop within {STOP_SECONDS} s: {''.join(self.output)}") from None
        self._finish()
        if code:
            raise RuntimeError(f"the node ended with exit code {code}: {''.join(self.output)}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._finish()

    def wait_until_it_listens(self) -> str:
        """The address, when the node answers there; RuntimeError with the output if it did not start."""
        try:
            return self._announced.result(START_SECONDS)
        except TimeoutError:
            self.kill()
            raise RuntimeError(
                f"the node did not start within {START_SECONDS} seconds: {''.join(self.output).strip()}"
            ) from None
        except EOFError:
            self._process.wait(STOP_SECONDS)
            self._finish()
            raise RuntimeError(f"the node did not start: {''.join(self.output).strip()}") from None

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line)
            match = _ADDRESS.search(line)
            if match and not self._announced.done():
                self._announced.set_result(match[1])
        if not self._announced.done():
            self._announced.set_exception(EOFError())

    def _finish(self) -> None:
        self._reader.join(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
