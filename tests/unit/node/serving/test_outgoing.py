"""What a connection sends from files: inside the system where that can be, through the transport where it cannot."""

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.disk import Disk, OpenFile
from penstock.log.log_slice import LogSlice
from penstock.node.serving.outgoing import (
    CHUNK_BYTES,
    SENT_BY_SYSTEM_BYTES,
    FileCutError,
    Outgoing,
    ResponsePart,
    _has_arrived,
)

SIZE = 5 * CHUNK_BYTES + 17


class EncryptingTransport:
    """A transport that must see every byte."""

    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> object:
        return object() if name == "sslcontext" else None

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        assert len(data) <= CHUNK_BYTES
        self.written += data


def is_counted(out: Outgoing) -> bool:
    """Whether it knows how many bytes are left, and how many of its parts lie in files."""
    left = out._parts
    return (out.queued_bytes, out._files) == (sum(map(len, left)), sum(isinstance(part, LogSlice) for part in left))


class Sending(asyncio.Protocol):
    """Sends as a connection does: on when the transport says so."""

    def __init__(self, parts: list[ResponsePart]) -> None:
        self._parts = parts
        self._out = Outgoing()
        self._transport: asyncio.Transport | None = None
        self.error: Exception | None = None
        self.is_counted = True
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._out.add(self._parts)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._out.clear()
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self._out.is_blocked = True

    def resume_writing(self) -> None:
        self._out.is_blocked = False
        self._flush()

    def _flush(self) -> None:
        assert self._transport is not None
        try:
            self._out.flush(self._transport)
        except FileCutError as error:
            self.error = error
        self.is_counted &= is_counted(self._out)
        if self.error or not self._out:
            self._transport.close()


@pytest.fixture
def file(tmp_path: Path) -> OpenFile:
    opened = Disk().open(str(tmp_path / "log"), create=True)
    opened.write_at(bytes(range(256)) * (SIZE // 256 + 1), 0)
    opened.truncate(SIZE)
    return opened


def parts_of(file: OpenFile) -> list[ResponsePart]:
    small = SENT_BY_SYSTEM_BYTES - 1
    return [
        b"head",
        LogSlice(file, 0, SIZE, 0),
        b"middle",
        LogSlice(file, 3, small, 0),
        LogSlice(file, 5, SIZE - 5, 0),
        b"end",
    ]


def bytes_of(file: OpenFile) -> bytes:
    whole = file.read_at(SIZE, 0)
    return b"head" + whole + b"middle" + whole[3 : 3 + SENT_BY_SYSTEM_BYTES - 1] + whole[5:] + b"end"


async def received(sending: Sending) -> bytes:
    """All that it sends, by a reader that takes its time."""
    server = await asyncio.get_running_loop().create_server(lambda: sending, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2], limit=2**10)
        data = await reader.read()
        writer.close()
    return data


async def test_parts_arrive_whole_and_in_order(file: OpenFile) -> None:
    sending = Sending(parts_of(file))
    assert await received(sending) == bytes_of(file)
    assert sending.is_counted


async def test_a_file_that_ends_before_its_slice_is_an_error(file: OpenFile) -> None:
    sending = Sending([LogSlice(file, SIZE - 10, SENT_BY_SYSTEM_BYTES, 0)])
    assert await received(sending) == file.read_at(10, SIZE - 10)
    assert isinstance(sending.error, FileCutError)


async def test_a_peer_that_goes_in_the_middle_is_no_fault_of_ours(
    file: OpenFile, caplog: pytest.LogCaptureFixture
) -> None:
    sending = Sending([LogSlice(file, 0, SIZE, 0) for _ in range(20)])
    server = await asyncio.get_running_loop().create_server(lambda: sending, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2], limit=2**10)
        await reader.readexactly(1)
        writer.transport.abort()
        assert isinstance(await sending.lost, ConnectionError)
    assert sending.error is None
    assert not caplog.records


def test_a_transport_that_encrypts_sees_every_byte(file: OpenFile) -> None:
    out, transport = Outgoing(), EncryptingTransport()
    out.add(parts_of(file))
    out.flush(cast("Any", transport))
    assert transport.written == bytes_of(file)
    assert is_counted(out)


@pytest.mark.parametrize(("length", "count"), [(100, 1_000), (8_000, 1_000), (3 * CHUNK_BYTES, 20)])
def test_others_have_their_turn_before_very_much_is_read(
    file: OpenFile, monkeypatch: pytest.MonkeyPatch, length: int, count: int
) -> None:
    """A peer that takes all at once holds up nobody, whether it asked for much, or for little of very many logs."""
    out, transport, read, reads = Outgoing(), EncryptingTransport(), OpenFile.read_at, list[int]()
    whole = b"head" + count * (file.read_at(length, 0) + b"between")
    out.add([b"head", *(part for _ in range(count) for part in (LogSlice(file, 0, length, 0), b"between"))])

    def noted(file: OpenFile, length: int, position: int) -> bytes:
        reads.append(length)
        return read(file, length, position)

    monkeypatch.setattr(OpenFile, "read_at", noted)
    turns, goes_on, written = 0, True, 0
    while goes_on:
        goes_on = out.flush(cast("Any", transport))
        turns += 1
        assert out.is_blocked is goes_on
        assert not out.flush(cast("Any", transport)), "it is not its turn"
        assert is_counted(out)
        assert len(reads) <= 300
        assert len(transport.written) - written <= 16 * CHUNK_BYTES
        out.is_blocked, written = False, len(transport.written)
        reads.clear()
    assert transport.written == whole
    assert turns == (-(-count // 256) if length < CHUNK_BYTES else 4)


class ClosingTransport(EncryptingTransport):
    """A transport that finds with its first write that the peer has gone."""

    def is_closing(self) -> bool:
        return bool(self.written)


def test_nothing_more_is_read_for_a_peer_that_has_gone(file: OpenFile) -> None:
    out, transport = Outgoing(), ClosingTransport()
    out.add(parts_of(file))
    out.flush(cast("Any", transport))
    assert len(transport.written) == CHUNK_BYTES


def test_a_large_slice_is_left_to_the_system_from_its_first_byte(file: OpenFile) -> None:
    out = Outgoing()
    out.add(parts_of(file))
    assert out._next_chunk(CHUNK_BYTES, stops_at_large=True) == b"head"


def test_what_has_arrived_is_seen_before_it_is_taken() -> None:
    near, far = socket.socketpair()
    transport = cast("asyncio.Transport", SimpleNamespace(get_extra_info={"socket": near}.get))
    assert not _has_arrived(transport)
    far.send(b"a")
    assert _has_arrived(transport)
    near.recv(1)
    assert not _has_arrived(transport)
    far.send(b"a")
    near.close()
    assert not _has_arrived(transport), "it is closed"
    assert not _has_arrived(cast("asyncio.Transport", SimpleNamespace(get_extra_info={}.get)))
    far.close()


class FullTransport(EncryptingTransport):
    """One whose peer does not read."""

    def __init__(self, out: Outgoing) -> None:
        super().__init__()
        self._out = out

    def write(self, data: bytes) -> None:
        super().write(data)
        self._out.is_blocked = True


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        ([100], 100),
        ([CHUNK_BYTES + 1], 2 * CHUNK_BYTES + 1),
        ([3 * CHUNK_BYTES, 7], 4 * CHUNK_BYTES + 7),
        ([CHUNK_BYTES, 7], CHUNK_BYTES + 7),
    ],
)
def test_a_peer_that_does_not_read_costs_what_is_in_memory_and_not_what_is_unsent(sizes: list[int], held: int) -> None:
    """A chunk and a part stay as wholes until their last byte has gone."""
    out = Outgoing()
    transport = FullTransport(out)
    out.add([bytes(size) for size in sizes])
    out.flush(cast("asyncio.Transport", transport))
    assert out.is_blocked
    assert out.held_bytes() == held


def test_slices_of_files_are_not_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    out = Outgoing()
    file = Disk().open(str(path))
    out.add([b"head", LogSlice(file, 0, SIZE, 0)])
    out.flush(cast("asyncio.Transport", FullTransport(out)))
    assert out.held_bytes() == CHUNK_BYTES
    file.close()
