"""The physical limit: a bare loop of the system calls that a broker cannot do without, on primitives in C.

Produce: receive, checksum, write, answer. Fetch: receive, read, send. No protocol, no offsets, no index, one
connection, blocking sockets: a bound on a broker's cost and no broker.
`python -m bench.versus.bare produce BYTES FRAME WINDOW FILE` prints seconds and CPU seconds.
"""

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from bench.child import Child, answer
from bench.versus.systems import Sample

REPLY = bytes(60)
REQUEST = bytes(100)
ROOM = 2**16


def receive(connection: socket.socket, into: memoryview) -> None:
    """Fill `into`."""
    filled = 0
    while filled < len(into):
        got = connection.recv_into(into[filled:])
        if not got:
            raise EOFError
        filled += got


def serve_produce(connection: socket.socket, file: int, total: int, frame: int) -> None:
    """Receive, checksum, write, answer; a frame that fits is taken with those that came with it."""
    buffer = memoryview(bytearray(max(frame, ROOM)))
    done = filled = 0
    while done < total:
        if frame > ROOM:
            receive(connection, buffer[:frame])
            filled = frame
        else:
            filled += connection.recv_into(buffer[filled:])
        position = 0
        while filled - position >= frame:
            records = buffer[position : position + frame]
            crc32c(records)
            os.write(file, records)
            position += frame
        connection.sendall(REPLY * (position // frame))
        buffer[: filled - position] = bytes(buffer[position:filled])
        done += position
        filled -= position


def ask_produce(connection: socket.socket, total: int, frame: int, window: int) -> None:
    """Keep `window` frames in flight."""
    payload = memoryview(b"x" * frame * window)
    connection.sendall(payload)
    left, half = total // frame - window, 0
    answered = 0
    while answered < total // frame:
        half += len(connection.recv(ROOM))
        replies, half = divmod(half, len(REPLY))
        answered += replies
        more = min(replies, left)
        if more:
            connection.sendall(payload[: more * frame])
            left -= more


def serve_fetch(connection: socket.socket, file: int, total: int, frame: int) -> None:
    """Receive a request, read, send."""
    request = memoryview(bytearray(len(REQUEST)))
    for position in range(0, total, frame):
        receive(connection, request)
        connection.sendall(os.pread(file, frame, position))


def ask_fetch(connection: socket.socket, total: int, frame: int, window: int) -> None:
    """Ask for a frame, take it, ask for the next."""
    into = memoryview(bytearray(frame))
    for _ in range(total // frame):
        connection.sendall(REQUEST)
        receive(connection, into)


@dataclass(frozen=True, slots=True)
class BareLoop:
    """A loop that takes its turn between the brokers. Its files stay until the end, as those of the brokers do for a
    while, so all of them write to memory of the same kind. `reading` makes figures of (seconds, CPU seconds).
    """

    directory: Path
    kind: str
    total: int
    frame: int
    window: int
    reading: Callable[[float, float], Sample]

    def __call__(self, number: int) -> Sample:
        """One run."""
        new = tempfile.mkdtemp(dir=self.directory) if self.kind == "produce" else self.directory
        path = Path(new) / "bare.log"
        words = (self.kind, self.total, self.frame, self.window, path)
        ran = Child("bench.versus.bare", *words).result()
        return self.reading(ran["seconds"], ran["cpu_s"])


def main() -> None:
    """Serve in this process, ask in a fork of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["produce", "fetch"])
    parser.add_argument("total", type=int)
    parser.add_argument("frame", type=int)
    parser.add_argument("window", type=int)
    parser.add_argument("file", type=Path)
    words = parser.parse_args()
    total = words.total // words.frame * words.frame
    serve, ask = (serve_produce, ask_produce) if words.kind == "produce" else (serve_fetch, ask_fetch)
    listening = socket.create_server(("127.0.0.1", 0))
    with words.file.open("ab+") as file:
        if words.kind == "fetch" and words.file.stat().st_size == 0:
            for _ in range(total // words.frame):
                file.write(bytes(words.frame))
            file.flush()
        if os.fork() == 0:
            with socket.create_connection(listening.getsockname()) as asking:
                asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ask(asking, total, words.frame, words.window)
            os._exit(0)
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun, cpu = time.perf_counter(), time.process_time()
        serve(connection, file.fileno(), total, words.frame)
        answer({"seconds": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu})
        sys.stdout.flush()
        os.wait()


if __name__ == "__main__":
    main()
