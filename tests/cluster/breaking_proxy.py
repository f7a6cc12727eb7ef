"""A proxy before a broker that can lose answers: it closes the connection instead of passing one on."""

import socket
import threading
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class BreakingProxy:
    """Listens on a free port; `target` is set once the broker runs, as that advertises this proxy's address."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: str = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = ""
        self.answers_lost = 0
        self._breaks = 0
        self._threads: list[threading.Thread] = []

    def lose_answers(self, count: int) -> None:
        """Lose the next answers: what they answer has been done."""
        self._breaks = count

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _run(self, target: object, *arguments: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self.target.split(":")
            broker = socket.create_connection((host, int(port)))
            self._run(self._pass_on, client, broker, False)
            self._run(self._pass_on, broker, client, True)

    def _pass_on(self, source: socket.socket, sink: socket.socket, may_break: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if may_break and self._breaks:
                    self._breaks -= 1
                    self.answers_lost += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
