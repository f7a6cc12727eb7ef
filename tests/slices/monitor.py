"""What holds a node's event loop, and for how long: each callback of the loop, in lines of Python that it ran.

Lines are counted and not time, so that a busy machine measures the same as an idle one. What a thread does beside the
loop is not counted, nor is a module that is read where it is first needed: that is once, and how much of it depends on
what was asked before. A line takes some 50 ns, or more where it calls what is written in C.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Self

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import start_node

LIMIT_S: Final = 60
FINDS_AND_LOADS: Final = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]


class WatchedNode:
    """A node in a thread of this process, on a loop of asyncio's own, each callback of which is watched.

    `longest` is the longest slice since `begin`, in lines or in seconds; `where` are the functions that had most of it.
    """

    def __init__(self, settings: Mapping[str, str], *, counts_lines: bool = True) -> None:
        self.address = self.controller_address = ""
        self.longest = 0.0
        self.where = ""
        self._slice = self._in_lines if counts_lines else self._in_seconds
        self._lines: Counter[CodeType] = Counter()
        self._loading = 0
        """Modules, one for the sake of the other."""
        self._loop = asyncio.SelectorEventLoop()
        self._has_started_or_failed = threading.Event()
        self._error: BaseException | None = None
        self._stop = asyncio.Event()
        self._run_callback = asyncio.Handle._run
        self._thread = threading.Thread(target=self._run, args=(BrokerConfig.embedded(settings),), daemon=True)

    def __enter__(self) -> Self:
        node = self

        def run(handle: asyncio.Handle) -> None:
            if handle._loop is node._loop:  # type: ignore[attr-defined]  # typeshed lacks it
                node._slice(handle)
            else:
                node._run_callback(handle)

        asyncio.Handle._run = run  # type: ignore[method-assign, assignment]
        self._thread.start()
        try:
            if not self._has_started_or_failed.wait(LIMIT_S):
                raise TimeoutError(f"the node did not start within {LIMIT_S} s")
            self._raise_its_error()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        if kind is None:
            self._raise_its_error()

    def begin(self) -> None:
        self.longest, self.where = 0.0, ""

    def _run(self, config: BrokerConfig) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(config))
        except BaseException as error:
            self._error = error
        finally:
            self._has_started_or_failed.set()

    def _end(self) -> None:
        with suppress(RuntimeError):  # the node has failed, and its loop is closed
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LIMIT_S)
        asyncio.Handle._run = self._run_callback  # type: ignore[method-assign]

    def _raise_its_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def _serve(self, config: BrokerConfig) -> None:
        node = await start_node(config)
        addresses = {endpoint.listener: f"127.0.0.1:{endpoint.port}" for endpoint in node.endpoints}
        self.controller_address = addresses.pop("CONTROLLER", "")
        (self.address,) = addresses.values()
        self._has_started_or_failed.set()
        await self._stop.wait()
        await node.stop()

    def _in_seconds(self, handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        self._run_callback(handle)
        took_s = time.thread_time() - began_s
        if took_s > self.longest:
            self.longest, self.where = took_s, repr(handle)

    def _in_lines(self, handle: asyncio.Handle) -> None:
        self._lines.clear()
        sys.settrace(self._trace)
        try:
            self._run_callback(handle)
        finally:
            sys.settrace(None)
        lines = self._lines.total()
        if lines > self.longest:
            most = self._lines.most_common(3)
            self.longest, self.where = lines, ", ".join(f"{code.co_qualname} {count:,}" for code, count in most)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is FINDS_AND_LOADS:
            self._loading += 1
            return self._trace_loading
        if self._loading:
            return None
        self._lines[frame.f_code] += 1
        return self._trace

    def _trace_loading(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return":
            self._loading -= 1
        return self._trace_loading
