"""The layer between a protocol and its transport: in memory, with both ends in the test's hands."""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
import weakref
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.certificates import Authority, Holder
from tests.unit.tls.ends import End, Inner, Pair

from penstock.tls import layer as layers
from penstock.tls.layer import HANDSHAKE_BYTES, RECEIVED_BYTES, TlsBuffers


async def turn() -> None:
    """What was put off is done."""
    await asyncio.sleep(0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Holder:
    return authority.signs("server")


async def test_what_is_written_arrives_and_not_in_the_clear(authority: Authority, server: Holder) -> None:
    for at_once in (1, 7, RECEIVED_BYTES):
        pair = Pair(authority, server)
        pair.at_once = at_once
        pair.exchange()
        assert pair.client.is_secured
        assert pair.server.is_secured
        pair.client.layer.write(b"question" * 10)
        assert b"question" not in pair.client.wire.sent
        pair.exchange()
        pair.server.layer.write(b"answer")
        pair.exchange()
        assert pair.server.inner.received == b"question" * 10
        assert pair.client.inner.received == b"answer"
        pair.client.layer.close()
        pair.exchange()
        assert pair.client.wire.is_closed
        assert pair.server.wire.is_closed, "it was told goodbye"
        assert not pair.server.fault + pair.client.fault


async def test_what_comes_with_the_end_of_the_handshake_is_heard_at_once(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    while not pair.client.is_secured:
        assert pair._carried(pair.client, pair.server) | pair._carried(pair.server, pair.client)
    pair.client.layer.write(b"question")
    pair._carried(pair.client, pair.server)
    assert pair.server.inner.received == b"question"


async def test_how_much_comes_behind_a_handshake_is_not_counted_as_one(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    while not pair.client.is_secured:
        assert pair._carried(pair.client, pair.server) | pair._carried(pair.server, pair.client)
    pair.client.layer.write(b"x" * 2 * RECEIVED_BYTES)
    for _ in range(3):
        pair.exchange()
        await turn()
    assert not pair.server.fault
    assert pair.server.inner.received == b"x" * 2 * RECEIVED_BYTES


async def test_a_handshake_in_many_pieces_is_as_long_as_in_one(authority: Authority, server: Holder) -> None:
    sizes = []
    for at_once in (1, 3, RECEIVED_BYTES):
        pair = Pair(authority, server)
        pair.at_once = at_once
        pair._carried(pair.client, pair.server)
        sizes.append(pair.server.layer._unfinished)
    assert len(set(sizes)) == 1


async def test_a_protocol_that_stops_reading_gets_the_rest_later(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    pair.server.inner.most = 10_000
    sent = bytes(range(256)) * 1000
    pair.client.layer.write(sent)
    for _ in range(100):
        pair.exchange()
        assert len(pair.server.inner.received) < len(sent) or pair.server.inner.received == sent
        if pair.server.inner.received == sent:
            break
        assert pair.server.wire.is_paused
        await turn()
        pair.server.inner.most += 20_000
        pair.server.layer.resume_reading()
        await turn()
    assert pair.server.inner.received == sent
    assert not pair.server.fault


async def test_a_small_room_is_filled_as_often_as_needed(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.server.inner._buffer = bytearray(100)
    pair.exchange()
    pair.client.layer.write(b"x" * 30_000)
    pair.exchange()
    assert pair.server.inner.received == b"x" * 30_000


async def test_after_a_full_read_others_have_their_turn(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    pair.client.layer.write(b"x" * 3 * RECEIVED_BYTES)
    pair.exchange()
    assert pair.server.wire.is_paused
    assert len(pair.server.inner.received) <= RECEIVED_BYTES
    await turn()
    assert not pair.server.wire.is_paused
    pair.exchange()
    await turn()
    pair.exchange()
    await turn()
    pair.exchange()
    assert len(pair.server.inner.received) == 3 * RECEIVED_BYTES


async def test_layers_that_share_buffers_do_not_mix_what_they_have(authority: Authority, server: Holder) -> None:
    """The protocol of one writes to another, and closes it, while it gets what has come."""
    one = Pair(authority, server)
    other = Pair(authority, server, buffers=one.buffers)
    one.exchange()
    other.exchange()
    taken = one.server.inner.buffer_updated

    def passes_on(nbytes: int) -> None:
        taken(nbytes)
        if not other.server.wire.is_closed:
            other.server.layer.write(b"from within")
            other.server.layer.close()

    one.server.inner.buffer_updated = passes_on  # type: ignore[method-assign]
    one.server.inner._buffer = bytearray(64)
    for _ in range(2):
        one.client.layer.write(b"a" * 500)
    one.exchange()
    other.exchange()
    assert one.server.inner.received == b"a" * 1000
    assert other.client.inner.received == b"from within"
    assert not one.server.fault + other.client.fault


async def test_calls_go_through(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    layer, wire = pair.server.layer, pair.server.wire
    layer.set_write_buffer_limits(high=0)
    assert wire.high == 0
    layer.pause_writing()
    layer.resume_writing()
    layer.connection_lost(None)
    assert pair.server.inner.calls == ["pause", "resume", "lost"]
    assert layer.get_extra_info("sslcontext") is pair.serving.context
    assert layer.get_extra_info("peername", "?") == "?"
    assert not pair.server.fault, "who comes and goes without a word is not told of"


@pytest.mark.parametrize(
    ("bytes_sent", "fault"),
    [
        (b"\0\0\0\x1a\0\x12\0\4", "does not speak TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(20), "record|packet length|version"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380), "too long"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "does not speak TLS"),
        (bytes([22, 3, 1, 0, 4, 1, 3, 0, 0]), "too long"),
    ],
)
async def test_what_is_no_handshake_ends_the_connection(
    bytes_sent: bytes, fault: str, authority: Authority, server: Holder
) -> None:
    end = Pair(authority, server).server
    end.take(bytes_sent)
    assert end.wire.is_closed
    assert re.search(fault, end.fault), end.fault
    assert not end.inner.received
    if bytes_sent[0] != 22:
        assert end.wire.is_aborted
        assert not end.wire.sent, "an alert would be taken for a length"
    end.layer.connection_lost(None)
    assert end.inner.calls == ["lost"]
    assert end.is_lost


async def test_what_is_written_is_something_and_nothing_once_it_is_closed(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    pair.server.wire.write = Mock(side_effect=pair.server.wire.write)  # type: ignore[method-assign]
    pair.server.layer.write(b"")
    pair.server.wire.write.assert_not_called()
    pair.server.layer.close()
    said = bytes(pair.server.wire.sent)
    pair.server.layer.write(b"late")
    pair.server.layer.close()
    assert pair.server.wire.sent == said


async def test_a_handshake_that_was_done_in_time_stays_so(
    authority: Authority, server: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "HANDSHAKE_S", 0.0)
    pair = Pair(authority, server)
    pair.exchange()
    for _ in range(5):
        await turn()
    for end in (pair.client, pair.server):
        assert end.is_secured
        assert not end.fault
        assert not end.wire.is_closed


async def test_a_handshake_is_bounded(authority: Authority, server: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    most = Pair(authority, server).server
    most.layer._unfinished = HANDSHAKE_BYTES - 5
    most.take(b"\x16\x03\x01\0\x50")
    assert (most.fault, most.wire.is_closed) == ("", False)
    end = Pair(authority, server).server
    end.layer._unfinished = HANDSHAKE_BYTES
    end.take(b"\x16\x03\x01\0\x50")
    assert f"longer than {HANDSHAKE_BYTES}" in end.fault
    assert end.wire.is_closed
    monkeypatch.setattr(layers, "HANDSHAKE_S", 0.0)
    slow = Pair(authority, server).server
    slow.take(b"\x16\x03")
    silent = Pair(authority, server)
    while not silent.server.wire.is_aborted or not silent.client.wire.is_aborted or not slow.wire.is_aborted:
        await asyncio.sleep(0)
    assert not silent.server.fault
    assert "was not done within" in silent.client.fault
    assert "was not done within" in slow.fault
    assert slow.wire.is_aborted


async def test_garbage_after_the_handshake_ends_the_connection(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    pair.server.take(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert "not encrypted with this connection's key" in pair.server.fault
    assert pair.server.wire.is_closed
    assert not pair.server.inner.received
    pair.server.layer.write(b"late")
    assert pair.server.layer.is_closing()


async def test_a_record_that_was_changed_is_not_given_on(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    pair.client.layer.write(b"one")
    pair.client.wire.sent[-1] ^= 1
    pair.exchange()
    assert not pair.server.inner.received
    assert pair.server.fault


async def test_who_came_is_known_by_its_certificate(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server, authority.signs("ada"), ssl_client_auth="required")
    pair.exchange()
    assert pair.server.is_secured
    assert pair.server.layer.peer_certificate is not None
    nobody = Pair(authority, server, ssl_client_auth="required")
    nobody.exchange()
    assert "the client shows no certificate" in nobody.server.fault
    assert "wants a certificate of ours" in nobody.client.fault
    assert not nobody.server.is_secured
    perhaps = Pair(authority, server, ssl_client_auth="requested")
    perhaps.exchange()
    assert perhaps.server.layer.peer_certificate is None
    assert perhaps.server.is_secured


async def test_both_sides_say_what_is_wrong_with_a_certificate(
    authority: Authority, server: Holder, tmp_path: Path
) -> None:
    def faults(of_server: Holder, of_client: Holder) -> tuple[str, str]:
        pair = Pair(authority, of_server, of_client, ssl_client_auth="required")
        pair.exchange()
        return pair.server.fault, pair.client.fault

    stranger = Authority(tmp_path, "stranger")
    ours, theirs = faults(server, authority.signs("late", days=-1, file="late"))
    assert ("the peer's certificate has expired" in ours, "our certificate has expired" in theirs) == (True, True)
    ours, theirs = faults(server, stranger.signs("ada", file="from-afar"))
    assert "authority that is not in our ssl.truststore" in ours
    assert "does not trust who signed our certificate" in theirs
    ours, theirs = faults(authority.signs("other", hosts=("elsewhere.example",), file="other"), authority.signs("bob"))
    assert "not valid for 'localhost'" in theirs
    assert "our certificate" in ours


async def test_a_client_says_that_nobody_speaks_tls_there(authority: Authority, server: Holder) -> None:
    client = Pair(authority, server).client
    client.take(b"HTTP/1.1 400 Bad Request")
    assert "what listens there does not speak TLS" in client.fault
    refused = Pair(authority, server).client
    refused.take(b"\x15\x03\x03\x00\x02\x02\x28")
    assert "does not speak TLS" not in refused.fault, "an alert may be its first word"
    assert refused.fault
    gone = Pair(authority, server).client
    gone.layer.connection_lost(None)
    assert "closed the connection during the TLS handshake" in gone.fault


async def test_nothing_is_given_to_a_protocol_that_has_stopped_reading(authority: Authority, server: Holder) -> None:
    """Nor is anything lost that the transport had received already."""
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    end.inner._buffer = bytearray(100)
    end.inner.most = 100
    for _ in range(3):
        pair.client.layer.write(b"x" * 500)
    pair.exchange()
    assert len(end.inner.received) == 100
    pair.client.layer.write(b"late")
    late = bytes(pair.client.wire.sent)
    pair.client.wire.sent.clear()
    end.layer.get_buffer(-1)[: len(late)] = late
    end.layer.buffer_updated(len(late))
    assert len(end.inner.received) == 100
    end.inner.most = 1 << 40
    end.layer.resume_reading()
    await turn()
    assert end.inner.received == b"x" * 1500 + b"late"
    assert not end.wire.is_paused


async def test_what_is_held_back_in_the_midst_of_a_record_goes_on_at_the_next(
    authority: Authority, server: Holder
) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    end.inner._buffer = bytearray(100)
    end.inner.most = 1
    for _ in range(3):
        pair.client.layer.write(b"x" * 500)
    sent = bytes(pair.client.wire.sent)
    end.take(sent[:-100])
    assert len(end.inner.received) == 100
    end.inner.most = 1 << 40
    end.layer.resume_reading()
    await turn()
    end.take(sent[-100:])
    assert end.inner.received == b"x" * 1500
    assert end.layer._left == 0, "another record begins"


async def test_a_protocol_that_fails_later_loses_its_connection(authority: Authority, server: Holder) -> None:
    """As one that fails while the transport calls: it is not left open with a hole in what it gets."""
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    end.inner.most = 1
    pair.client.layer.write(b"x" * 300_000)
    pair.exchange()
    end.inner.buffer_updated = Mock(side_effect=ZeroDivisionError)  # type: ignore[method-assign]
    told = Mock()
    asyncio.get_running_loop().set_exception_handler(told)
    end.layer.resume_reading()
    await turn()
    assert end.wire.is_aborted
    told.assert_called_once()


async def test_a_client_without_a_version_in_common_with_itself_says_so(authority: Authority, server: Holder) -> None:
    """OpenSSL's first step fails, before a byte has come: the system's rules may leave no version."""
    context = ssl.create_default_context()
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
    end = End(context, TlsBuffers(), Inner(), server_hostname="localhost")
    end.layer.connection_made(end.wire)
    assert end.wire.is_closed
    assert "protocols available" in end.fault.replace("_", " ").lower()


async def test_who_has_ended_is_not_kept_by_the_layer_that_it_has(authority: Authority, server: Holder) -> None:
    """The collector may not look at what has stayed for long."""
    pair = Pair(authority, server)
    pair.exchange()
    gc.disable()
    try:
        for end in (pair.client, pair.server):
            protocol = weakref.ref(end.inner)
            end.layer.connection_lost(None)
            assert end.inner.calls == ["lost"]
            del end.inner
            assert protocol() is None
    finally:
        gc.enable()
