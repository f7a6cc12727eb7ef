"""The physical limit: a bare loop of the system calls that a broker cannot do without, on primitives in C.

Produce: receive, checksum, write, answer. Fetch: receive, read, send. No protocol, no offsets, no index, one
connection, blocking sockets: a bound on a broker's cost and no broker.
"""

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from bench.child import Child
from bench.versus.systems import Sample

REPLY = bytes(60)
REQUEST = bytes(100)
ROOM = 2**16


def receive(connection: socket.socket, into: memoryview) -> None:
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
    request = memoryview(bytearray(len(REQUEST)))
    for position in range(0, total, frame):
        receive(connection, request)
        connection.sendall(os.pread(file, frame, position))


def ask_fetch(connection: socket.socket, total: int, frame: int, window: int) -> None:
    into = memoryview(bytearray(frame))
    for _ in range(total // frame):
        connection.sendall(REQUEST)
        receive(connection, into)


@dataclass(frozen=True, slots=True)
class BareLoop:
    """Takes its turn between the brokers. Its files stay until the end, as those of the brokers do for a while, so all
    of them write to memory of the same kind.

    It gives two figures: how much of `amount` a second, and how many times `1 / unit` CPU seconds a part of it takes.
    """

    directory: Path
    kind: str
    total: int
    frame: int
    window: int
    amount: float
    rate: str
    cost: str
    unit: float = 1e3

    def __call__(self, number: int) -> Sample:
        new = tempfile.mkdtemp(dir=self.directory) if self.kind == "produce" else self.directory
        call = Child(_looped, self.kind, self.total, self.frame, self.window, Path(new) / "bare.log")
        seconds, cpu_s = call.result()
        return {self.rate: self.amount / seconds, self.cost: cpu_s * self.unit / self.amount}


def _looped(kind: str, total: int, frame: int, window: int, path: Path) -> tuple[float, float]:
    """Serve in this process, ask in a fork of it: seconds, and CPU seconds."""
    total = total // frame * frame
    serve, ask = (serve_produce, ask_produce) if kind == "produce" else (serve_fetch, ask_fetch)
    listening = socket.create_server(("127.0.0.1", 0))
    with path.open("ab+") as file:
        if kind == "fetch" and path.stat().st_size == 0:
            for _ in range(total // frame):
                file.write(bytes(frame))
            file.flush()
        if os.fork() == 0:
            with socket.create_connection(listening.getsockname()) as asking:
                asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ask(asking, total, frame, window)
            os._exit(0)
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun, cpu = time.perf_counter(), time.process_time()
        serve(connection, file.fileno(), total, frame)
        found = time.perf_counter() - begun, time.process_time() - cpu
        os.wait()
    return found
