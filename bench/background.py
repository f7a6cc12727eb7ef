"""Work in a thread of its own, for as long as a block lasts."""

import threading
from typing import Self


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
