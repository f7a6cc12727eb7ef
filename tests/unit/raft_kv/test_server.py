"""One server, a quorum of itself, on a real socket and a real disk."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest
from examples.raft_kv import service as service_module
from examples.raft_kv import store as store_module
from examples.raft_kv.client import ClientOptions, KvClient, OutcomeUnknownError, StoreError
from examples.raft_kv.messages import GetRequest, encode_request
from examples.raft_kv.server import start_server
from tests.unit.raft_kv.conftest import NewAddress
from tests.unit.raft_kv.running import running

from penstock.log.disk import Disk, OpenFile
from penstock.node.environment.environment import Environment
from penstock.raft.settings import RaftSettings
from penstock.replicated.errors import NodeError
from penstock.replicated.options import NodeOptions

IMPATIENT = ClientOptions(timeout_s=0.5, attempt_timeout_s=0.5)


@pytest.fixture
def options(tmp_path: Path, new_address: NewAddress) -> NodeOptions:
    me = new_address(1)
    return NodeOptions(servers=(me,), me=me, directory=str(tmp_path / "data"))


def client_of(options: NodeOptions, how: ClientOptions | None = None) -> KvClient:
    return KvClient([options.me.address], how)


async def test_values_outlive_a_restart(options: NodeOptions) -> None:
    async with client_of(options) as client:
        async with running(options):
            await client.set(b"a", b"1")
            assert (await client.get(b"a")).value == b"1"
        async with running(options):
            assert (await client.get(b"a")).value == b"1"
            assert (await client.get(b"b")).value is None
            await client.set(b"a", b"2")
            assert (await client.get(b"a")).value == b"2"


async def test_values_in_a_file_are_made_anew_from_the_log_and_the_snapshot(options: NodeOptions) -> None:
    options = options.replace(snapshot_min_log_size=1, snapshot_period_seconds=0)
    directory = Path(options.directory)
    async with client_of(options) as client:
        async with running(options, keeps_values_in="sqlite") as server:
            await client.set(b"a", b"1")
            assert (await client.get(b"a")).value == b"1"
            assert list(directory.glob("*.sqlite3"))
            while not server.quorum.log_start_offset:
                await client.set(b"a", b"1")
            await client.set(b"b", b"2")
        assert not list(directory.glob("*.sqlite3")), "the log and the snapshot are what a server leaves"
        (directory / "store.1.sqlite3").write_bytes(b"of a process that was killed")
        async with running(options, keeps_values_in="sqlite"):
            assert [(await client.get(key)).value for key in (b"a", b"b", b"c")] == [b"1", b"2", None]


async def test_reads_within_a_lease_leave_the_log_alone(options: NodeOptions) -> None:
    async with running(options) as server, client_of(options) as client:
        await client.set(b"a", b"1")
        before = server.quorum.log_end_offset
        assert (await client.get(b"a")).value == b"1"
        assert server.quorum.log_end_offset == before


async def test_reads_that_come_together_share_a_record(options: NodeOptions) -> None:
    options = options.replace(quorum=RaftSettings(leases=False))
    async with running(options) as server, client_of(options) as first:
        await first.set(b"a", b"1")
        before = server.quorum.log_end_offset
        clients = [client_of(options) for _ in range(20)]
        found = await asyncio.gather(*(client.get(b"a") for client in clients))
        assert {answer.value for answer in found} == {b"1"}
        assert 0 < server.quorum.log_end_offset - before < 20
        for client in clients:
            client.disconnect()


async def test_a_session_that_was_forgotten(options: NodeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_SESSIONS", 1)
    async with running(options), client_of(options) as mine, client_of(options) as theirs:
        await mine.set(b"a", b"mine")
        await theirs.set(b"a", b"theirs")
        with pytest.raises(OutcomeUnknownError, match="forgotten"):
            await mine.set(b"a", b"lost")
        assert (await mine.get(b"a")).value == b"theirs"
        await mine.set(b"a", b"in a new session")
        assert (await theirs.get(b"a")).value == b"in a new session"


async def test_a_value_that_is_too_large(options: NodeOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MAX_RECORD_BYTES", 10)
    async with running(options), client_of(options) as client:
        await client.set(b"12345", b"12345")
        with pytest.raises(StoreError, match="MESSAGE_TOO_LARGE"):
            await client.set(b"12345", b"123456")
        assert (await client.get(b"12345")).value == b"12345"


async def test_nobody_answers(options: NodeOptions) -> None:
    async with client_of(options, IMPATIENT) as client:
        with pytest.raises(OutcomeUnknownError, match=r"within 0.5 s, the last try: connection refused"):
            await client.get(b"a")


async def test_a_server_that_is_none_of_ours(options: NodeOptions) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    other = await asyncio.start_server(answer, *options.me.address)
    async with client_of(options, IMPATIENT) as client:
        with pytest.raises(OutcomeUnknownError, match="a response of 1213486160 bytes"):
            await client.get(b"a")
    other.close()


@pytest.mark.parametrize(
    "garbage", [b"\x00\x00\x00\x04GARB", b"\x7f\xff\xff\xff", encode_request(GetRequest(), 1)[:20]]
)
async def test_garbage_ends_its_connection_and_nothing_else(options: NodeOptions, garbage: bytes) -> None:
    async with running(options), client_of(options) as client:
        await client.set(b"a", b"1")
        reader, writer = await asyncio.open_connection(*options.me.address)
        writer.write(garbage)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert (await client.get(b"a")).value == b"1"


async def test_a_version_of_the_future(options: NodeOptions) -> None:
    async with running(options):
        reader, writer = await asyncio.open_connection(*options.me.address)
        request = bytearray(encode_request(GetRequest(key=b"a"), 1))
        request[7] = 1
        writer.write(request)
        assert await reader.read() == b""
        writer.close()


async def test_an_address_that_is_taken(options: NodeOptions, tmp_path: Path) -> None:
    async with running(options):
        other = options.replace(directory=str(tmp_path / "other"))
        with pytest.raises(NodeError, match="cannot listen on"):
            await start_server(other)


async def test_a_directory_of_another_server(options: NodeOptions) -> None:
    async with running(options):
        pass
    me = options.me._replace(id=2)
    with pytest.raises(NodeError, match=r"node.id 1, this node has node.id 2"):
        await start_server(options.replace(servers=(me,), me=me))


class FailingDisk(Disk):
    fails = False

    def sync_directory(self, path: str) -> None:
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        super().sync_directory(path)


async def test_a_disk_that_fails_ends_the_server(options: NodeOptions) -> None:
    disk = FailingDisk()
    small = options.replace(max_segment_file_size=1024)
    server = await start_server(small, Environment(disk=disk))
    serving = asyncio.ensure_future(server.run_until(asyncio.Event()))
    async with client_of(options) as client:
        await client.set(b"a", b"1")
        disk.fails = True
        setting = asyncio.ensure_future(client.set(b"a", b"v" * 2000))
        with pytest.raises(NodeError, match="Input/output error"):
            await serving
        assert not setting.done()
        setting.cancel()
    async with running(options), client_of(options) as client:
        assert (await client.get(b"a")).value is not None


async def test_snapshots_by_time_and_by_size(options: NodeOptions, tmp_path: Path) -> None:
    """None is taken of a log that is too short; then one is, and it is what the next start begins with."""
    quick = options.replace(snapshot_period_seconds=0.001, snapshot_min_log_size=5_000, max_segment_file_size=1_000)
    async with running(quick) as server, client_of(options) as client:
        for _ in range(10):
            await client.set(b"a", b"1")
        assert server.quorum.log_start_offset == 0
        while server.quorum.log_start_offset == 0:
            await client.set(b"a", b"v" * 100)
        (log,) = tmp_path.glob("data/*-0")
        assert min(int(path.stem) for path in log.glob("*.log")) > 0
    async with running(options) as server, client_of(options) as client:
        assert server.quorum.log_start_offset > 0
        assert (await client.get(b"a")).value == b"v" * 100


class HeldDisk(Disk):
    """Holds up whoever writes a snapshot in a thread, until `go`."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = asyncio.Event()
        self.go = threading.Event()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        if path.endswith(".checkpoint.tmp") and threading.current_thread() is not threading.main_thread():
            self.loop.call_soon_threadsafe(self.began.set)
            self.go.wait(30)
        return super().open(path, create=create)


async def test_a_stop_waits_for_a_snapshot_that_is_being_written(options: NodeOptions, tmp_path: Path) -> None:
    disk = HeldDisk()
    quick = options.replace(snapshot_period_seconds=0.001, snapshot_min_log_size=1)
    server = await start_server(quick, Environment(disk=disk))
    async with client_of(options) as client:
        await client.set(b"a", b"1")
    await disk.began.wait()
    disk.loop.call_later(0.2, disk.go.set)
    await server.stop()
    names = sorted(path.name for path in tmp_path.glob("data/*-0/*.checkpoint*"))
    assert len(names) == 2
    assert not any(name.endswith(".tmp") for name in names)
