"""A stand-in for OpenSSL, which draws its own randomness: nodes and clients speak through the real layer of TLS, and
what it asks of an engine is done here without secrets.

Records look as those of TLS do, and say their number: one that is lost, comes twice, or comes to another connection, as
when layers mix their buffers up, ends the simulation. Certificates are shown and believed.
"""

import datetime as dt
import ssl
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from penstock.client.security import Security
from penstock.tls import stores
from penstock.tls.layer import TlsBuffers
from penstock.tls.opening import Opening
from penstock.tls.store import Key

_ALERT, _HANDSHAKE, _DATA = 21, 22, 23
_HEAD: Final = struct.Struct(">BHHI")
"""Kind, version, length of what follows, number."""
_NUMBER_BYTES: Final = 4
_VERSION: Final = 0x0303
LARGEST: Final = 16 * 1024
"""Of a record's content."""
SHOWN_BYTES: Final = 1024
"""Of a handshake: so long with any certificate, for how long one takes to arrive goes by that."""


class MixedUpError(AssertionError):
    """Simulated networks lose nothing in the middle: it was the layer."""


class StandInContext:
    """In place of an `ssl.SSLContext` of either side."""

    def __init__(self, settings: Mapping[str, str], key: Key | None) -> None:
        self.certificate = (stores.certificate_of(key) if key is not None else None) or b""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *, server_side: bool = False, server_hostname: str = ""
    ) -> "StandInEngine":
        return StandInEngine(self, incoming, outgoing, server_side=server_side)


class StandInEngine:
    """What the layer asks of an `ssl.SSLObject`."""

    def __init__(
        self, context: StandInContext, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *, server_side: bool
    ) -> None:
        self.context = context
        self.server_side = server_side
        self._incoming = incoming
        self._outgoing = outgoing
        self._begun = b""
        """Of a record that has not come whole."""
        self._content = bytearray()
        self._sent = self._received = 0
        """Records."""
        self._shown: bytes | None = None
        self._has_spoken = self._is_done = self._has_ended = False

    def do_handshake(self) -> None:
        """A client speaks first and last: hello, hello, done."""
        if not self.server_side:
            self._speak()
        while self._shown is None or (self.server_side and not self._is_done):
            content = self._next(_HANDSHAKE)
            if self._shown is None:
                self._shown = content[2 : 2 + int.from_bytes(content[:2], "big")]
                self._speak()
            else:
                self._is_done = True
        if not self._is_done:
            self._put(_HANDSHAKE, b"done")
            self._is_done = True

    def read(self, size: int, room: memoryview) -> int:
        if not self._content and not self._has_ended:
            self._content += self._next(_DATA)
        taken = min(size, len(self._content))
        room[:taken] = self._content[:taken]
        del self._content[:taken]
        return taken

    def write(self, data: Any) -> int:
        whole = memoryview(data)
        for begin in range(0, len(whole), LARGEST):
            self._put(_DATA, whole[begin : begin + LARGEST])
        return len(whole)

    def pending(self) -> int:
        return len(self._content)

    def unwrap(self) -> None:
        self._put(_ALERT, b"goodbye")
        raise ssl.SSLWantReadError

    def getpeercert(self, binary_form: bool) -> bytes | None:
        assert binary_form
        return self._shown or None

    def _speak(self) -> None:
        if not self._has_spoken:
            self._has_spoken = True
            shown = self.context.certificate
            self._put(_HANDSHAKE, (len(shown).to_bytes(2, "big") + shown).ljust(SHOWN_BYTES, b"\0"))

    def _put(self, kind: int, content: bytes | memoryview) -> None:
        self._outgoing.write(_HEAD.pack(kind, _VERSION, _NUMBER_BYTES + len(content), self._sent))
        self._outgoing.write(content)
        self._sent += 1

    def _next(self, kind: int) -> bytes:
        """What the next record has, nothing behind a goodbye; SSLWantReadError if it has not come whole."""
        self._fill(_HEAD.size)
        found, _, length, number = _HEAD.unpack_from(self._begun)
        self._fill(_HEAD.size + length - _NUMBER_BYTES)
        content, self._begun = self._begun[_HEAD.size :], b""
        self._received += 1
        if number != self._received - 1:
            raise MixedUpError(f"the record {number} came in place of {self._received - 1}")
        if found == _ALERT:
            self._has_ended = True
            return b""
        if found != kind:
            raise MixedUpError(f"a record of kind {found} came in place of one of {kind}")
        return content

    def _fill(self, size: int) -> None:
        """As OpenSSL does, no more is taken than belongs to the record. SSLWantReadError."""
        if len(self._begun) < size:
            self._begun += self._incoming.read(size - len(self._begun))
        if len(self._begun) < size:
            raise ssl.SSLWantReadError


class StandInSecurity(Security):
    """Of a simulated client."""

    def context(self) -> Any:
        return StandInContext({}, None)

    def opening(self, protocol: Any, host: str, fail: Callable[[str], object]) -> Opening:
        return Opening(protocol, self.context(), host, fail, TlsBuffers(lambda: 0.0))


@cache
def stand_in_keys() -> dict[str, str]:
    """Of all simulated nodes, by Kafka's names. Made once for a process."""
    from penstock.tls.authority import new_authority

    made = new_authority("simulated", dt.datetime.now(dt.UTC), 36500)
    return {
        "ssl.keystore.key": made.key,
        "ssl.keystore.certificate.chain": made.certificate,
        "ssl.truststore.certificates": made.certificate,
    }
