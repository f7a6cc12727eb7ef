"""The stand-in for OpenSSL: what it writes, byte by byte, and that whatever is lost, doubled or mixed up ends it."""

from __future__ import annotations

import ssl
import struct
from typing import Any

import pytest

from penstock.testing.simulator import stand_in_tls
from penstock.testing.simulator.stand_in_tls import (
    LARGEST,
    SHOWN_BYTES,
    MixedUpError,
    StandInContext,
    StandInEngine,
    StandInSecurity,
    stand_in_keys,
)

ALERT, HANDSHAKE, DATA = 21, 22, 23


class End:
    """One side: what has come to it, and what it wrote."""

    def __init__(self, certificate: bytes, *, server_side: bool) -> None:
        self.context = StandInContext({}, None)
        self.context.certificate = certificate
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.engine = self.context.wrap_bio(self.incoming, self.outgoing, server_side=server_side, server_hostname="h")

    def shakes(self) -> bool:
        try:
            self.engine.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def reads(self, size: int) -> bytes | None:
        room = bytearray(size)
        try:
            count = self.engine.read(size, memoryview(room))
        except ssl.SSLWantReadError:
            return None
        return bytes(room[:count])


def record(kind: int, number: int, content: bytes) -> bytes:
    return struct.pack(">BHHI", kind, 0x0303, 4 + len(content), number) + content


def hello(certificate: bytes) -> bytes:
    return (struct.pack(">H", len(certificate)) + certificate).ljust(SHOWN_BYTES, b"\0")


def test_hands_are_shaken_in_three_records() -> None:
    client, server = End(b"", server_side=False), End(b"the server's", server_side=True)
    assert not server.shakes()
    assert server.outgoing.read() == b""
    assert not client.shakes()
    assert not client.shakes()
    first = client.outgoing.read()
    assert first == record(HANDSHAKE, 0, hello(b""))
    for place in range(len(first) - 1):
        server.incoming.write(first[place : place + 1])
        assert not server.shakes()
        assert server.outgoing.read() == b""
    server.incoming.write(first[-1:])
    assert not server.shakes()
    second = server.outgoing.read()
    assert second == record(HANDSHAKE, 0, hello(b"the server's"))
    client.incoming.write(second)
    assert client.shakes()
    assert client.shakes(), "and says nothing more"
    third = client.outgoing.read()
    assert third == record(HANDSHAKE, 1, b"done")
    server.incoming.write(third)
    assert server.shakes()
    assert server.outgoing.read() == b""
    assert client.engine.getpeercert(True) == b"the server's"
    assert server.engine.getpeercert(True) is None
    assert (client.engine.server_side, server.engine.server_side) == (False, True)
    assert client.engine.context is client.context


def shaken() -> tuple[End, End]:
    client, server = End(b"c" * 300, server_side=False), End(b"s", server_side=True)
    done = {client: False, server: False}
    while not all(done.values()):
        for one, other in ((client, server), (server, client)):
            done[one] = done[one] or one.shakes()
            other.incoming.write(one.outgoing.read())
    assert server.engine.getpeercert(True) == b"c" * 300
    return client, server


def test_data_come_in_records_of_a_limited_size() -> None:
    client, server = shaken()
    assert client.reads(5) is None
    data = bytes(range(256)) * (LARGEST // 128) + b"rest"
    assert client.engine.write(data) == len(data)
    written = client.outgoing.read()
    assert written == b"".join(
        record(DATA, 2 + number, data[begin : begin + LARGEST])
        for number, begin in enumerate((0, LARGEST, 2 * LARGEST))
    )
    server.incoming.write(written)
    assert server.reads(10) == data[:10]
    assert server.engine.pending() == LARGEST - 10
    assert server.reads(LARGEST) == data[10:LARGEST]
    assert (server.engine.pending(), server.reads(LARGEST), server.reads(99)) == (
        0,
        data[LARGEST : 2 * LARGEST],
        b"rest",
    )
    assert server.reads(1) is None
    assert server.engine.write(b"") == 0
    assert server.outgoing.read() == b""


def test_no_more_is_taken_than_a_record_has() -> None:
    client, server = shaken()
    client.engine.write(b"one")
    client.engine.write(b"two")
    server.incoming.write(client.outgoing.read())
    assert server.reads(9) == b"one"
    assert server.incoming.pending == len(record(DATA, 0, b"two"))
    assert server.reads(9) == b"two"


def test_a_goodbye_ends_what_comes() -> None:
    client, server = shaken()
    client.engine.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.engine.unwrap()
    written = client.outgoing.read()
    assert written == record(DATA, 2, b"last") + record(ALERT, 3, b"goodbye")
    server.incoming.write(written)
    assert [server.reads(9) for _ in range(3)] == [b"last", b"", b""]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([(DATA, 3, b"x")], "the record 3 came in place of 2"),
        ([(DATA, 1, b"x")], "the record 1 came in place of 2"),
        ([(DATA, 2, b"x"), (DATA, 2, b"x")], "the record 2 came in place of 3"),
        ([(HANDSHAKE, 2, b"x")], "a record of kind 22 came in place of one of 23"),
        ([(ALERT, 3, b"")], "the record 3 came in place of 2"),
    ],
)
def test_what_is_mixed_up_is_found(records: list[tuple[int, int, bytes]], words: str) -> None:
    _, server = shaken()
    server.incoming.write(b"".join(record(*one) for one in records))
    for _ in records[1:]:
        assert server.reads(1) == b"x"
    with pytest.raises(MixedUpError, match=words):
        server.reads(1)


def test_a_handshake_takes_no_data() -> None:
    server = End(b"s", server_side=True)
    server.incoming.write(record(DATA, 0, b"x"))
    with pytest.raises(MixedUpError, match="a record of kind 23 came in place of one of 22"):
        server.engine.do_handshake()


def test_certificates_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    assert StandInContext({}, None).certificate == b""
    monkeypatch.setattr(stand_in_tls.stores, "certificate_of", lambda key: {1: b"one", 2: None}[key])  # type: ignore[attr-defined]
    assert [StandInContext({}, key).certificate for key in (1, 2)] == [b"one", b""]  # type: ignore[arg-type]
    keys = stand_in_keys()
    assert stand_in_keys() is keys
    assert set(keys) == {"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
    assert "PRIVATE KEY" in keys["ssl.keystore.key"]
    assert keys["ssl.keystore.certificate.chain"] == keys["ssl.truststore.certificates"]
    context: Any = StandInSecurity({}).context()
    assert isinstance(context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO()), StandInEngine)
