"""TLS between a protocol and its transport: each takes this for the other. Encryption is in memory, nothing waits.

The layers of a thread share two buffers of OpenSSL's and one to receive into, so a connection keeps the state of its
encryption alone. Whoever enters a layer leaves those buffers empty, and they are empty whenever other code is called
that may use them for another connection. What is left of them when the protocol stops reading is kept here: at most
what is received at a time.

| state       | it begins with                        | it ends with                                                  |
| ----------- | ------------------------------------- | ------------------------------------------------------------- |
| handshake   | connection_made                       | both sides agree; `HANDSHAKE_S`; `HANDSHAKE_BYTES`; a refusal |
| secured     | the protocol's watcher has been told  | either side closes, or sends what is not TLS                  |
| ended       |                                       |                                                               |

Why a handshake fails, or a connection ends with an error of TLS, is told to the watcher in one line. A peer that does
not speak TLS gets no alert: clients of Kafka's protocol would take it for a length.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, Protocol, cast

from penstock.tls.faults import CUT, fault_of

RECEIVED_BYTES: Final = 256 * 1024
"""Taken from the system at a time."""
FED_BYTES: Final = 32 * 1024
FED_RECORDS: Final = 64
"""Decrypted at a time. Records may be small and dear: one that changes the key costs as much as 20 KiB of data do."""
_HEAD_BYTES: Final = 5
"""Before each record; the last two say how long it is."""
SEALED_BYTES: Final = 64 * 1024
"""Encrypted at a time: more would not stay in the processor's cache."""
TURN_S: Final = 0.002
"""How long what has come is decrypted before other connections have their turn."""
HANDSHAKE_S: Final = 25.0
"""How long a handshake may take."""
HANDSHAKE_BYTES: Final = 256 * 1024
"""How much a peer may send until then."""
ANSWERS_BYTES: Final = 16 * 1024
"""What TLS itself may answer to a peer that reads nothing: one that asks for a new key is answered with one."""
GOODBYE_S: Final = 1.0
"""How long an alert may take to leave before the connection is cut."""
_HANDSHAKE, _ALERT = 22, 21
"""With the first of these each side's first record begins, or that of a listener with the second."""
NO_CLIENT: Final = (
    "the client does not speak TLS, and the listener nothing else: it needs another security.protocol, or port"
)
ONLY_KEYS: Final = "the peer asks for new keys again and again, and does not read"
HALF_KEY: Final = "the peer has begun to change its key, and something is to be written before it has ended that"
NO_SERVER: Final = "what listens there does not speak TLS: another port, or another security.protocol, is needed"

MakeEngine = Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject]
"""What is received stands in the first, what is to be sent comes into the second."""


class Watcher(Protocol):
    """Is told about layers."""

    def secured(self, layer: "TlsLayer") -> None:
        """The handshake is done: from now on the protocol may write, and gets what the peer writes."""

    def lost(self, layer: "TlsLayer") -> None:
        """The connection is no more."""

    def broken(self, layer: "TlsLayer", fault: str) -> None:
        """The connection ends for this reason. It may have been secured."""


class TlsBuffers:
    """What the layers of one thread share. `clock_s` measures turns, also within one call of the event loop."""

    __slots__ = ("clock_s", "incoming", "outgoing", "received")

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self.clock_s = clock_s
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.received = memoryview(bytearray(RECEIVED_BYTES))


class TlsLayer(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol's calls come as to a transport, the event loop's as to a protocol."""

    __slots__ = (
        "_answers",
        "_buffers",
        "_delivers",
        "_goes_on_later",
        "_is_blocked",
        "_is_held",
        "_is_over",
        "_left",
        "_raw",
        "_reads",
        "_rest",
        "_says_why",
        "_timer",
        "_tls",
        "_unfinished",
        "_watcher",
        "is_secured",
        "protocol",
    )

    def __init__(
        self, protocol: asyncio.BufferedProtocol, make_engine: MakeEngine, buffers: TlsBuffers, watcher: Watcher
    ) -> None:
        self.protocol = protocol
        self.is_secured = False
        self._buffers = buffers
        self._watcher = watcher
        self._tls = make_engine(buffers.incoming, buffers.outgoing)
        self._raw: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._unfinished = self._answers = 0
        """Bytes of the handshake that were fed, and of TLS itself that wait behind others for the peer to read."""
        self._left = 0
        """Bytes of a record that has begun and is still to come."""
        self._rest = b""
        """What has come and was not decrypted yet: what a held connection leaves, or a piece of a record's head."""
        self._reads = True
        self._is_held = self._goes_on_later = self._delivers = self._is_over = self._says_why = False
        self._is_blocked = False

    @property
    def peer_certificate(self) -> bytes | None:
        """As DER; None if the peer has shown none, or was not asked for one."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def _has_begun(self) -> bool:
        """Whether the peer has said anything of its handshake."""
        return bool(self._unfinished or self._rest)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self.protocol.connection_made(self)
        if self._raw.is_closing():
            return
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._too_slow)
        if not self._tls.server_side:
            self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffers.received

    def buffer_updated(self, nbytes: int) -> None:
        received = self._buffers.received[:nbytes]
        if self._is_over:
            return
        if self._is_held or self._goes_on_later:  # it was received already when reading was stopped
            self._rest += received
            return
        self._feed(self._rest + received if self._rest else received)
        if nbytes == RECEIVED_BYTES:
            self._later()  # others first

    def pause_writing(self) -> None:
        self._is_blocked = True
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_blocked, self._answers = False, 0
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_over and not self.is_secured and (self._has_begun or not self._tls.server_side):
            self._watcher.broken(self, CUT)
        self._end()
        self._watcher.lost(self)
        protocol = self.protocol
        del self.protocol, self._watcher  # they lead here, and the collector may not look at what has stayed for long
        protocol.connection_lost(exc)

    # What the protocol calls

    def write(self, data: Any) -> None:
        if not data or self._is_over:
            return
        incoming, outgoing = self._buffers.incoming, self._buffers.outgoing
        aside = incoming.read() if incoming.pending else b""  # OpenSSL first looks for the end of what the peer began
        try:
            if len(data) <= SEALED_BYTES:
                self._tls.write(data)
                self._raw.write(outgoing.read())
                return
            whole = memoryview(data)
            for begin in range(0, len(whole), SEALED_BYTES):
                self._tls.write(whole[begin : begin + SEALED_BYTES])
                self._raw.write(outgoing.read())
        except ssl.SSLError as error:  # others, who write here because of what they have got, have no part in it
            wants_rest = isinstance(error, ssl.SSLWantReadError)
            self._break_off(HALF_KEY if wants_rest else fault_of(error), says_why=False)
        finally:
            if aside:
                incoming.write(aside)

    def close(self) -> None:
        """Say goodbye, and close when everything is sent."""
        if self._is_over:
            return
        self._end()
        if self.is_secured and not self._raw.is_closing():
            self._say_goodbye()
        self._raw.close()

    def abort(self) -> None:
        self._end()
        if not self._says_why:
            self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_over or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._is_held = True
        self._set_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        if not self._delivers:
            self._later()

    def is_reading(self) -> bool:
        return not self._is_held

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`sslcontext` and `ssl_object` are known here, the rest to the transport."""
        if name == "sslcontext":
            return self._tls.context
        return self._tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    # Between them

    def _feed(self, received: bytes | memoryview) -> None:
        """A small request comes through here each time: calls that do nothing are left out."""
        if not (self.is_secured or self._unfinished) and not self._speaks_tls(received):
            return
        self._rest = b""
        fed, size, buffers = 0, len(received), self._buffers
        incoming, turn_ends_s = buffers.incoming, buffers.clock_s() + TURN_S
        try:
            while True:
                begun, fed = fed, self._end_of_feed(received, fed)
                incoming.write(received if fed - begun == size else received[begun:fed])
                if self.is_secured or self._shake_hands(fed - begun):
                    self._deliver()
                if self._is_held or self._is_over or fed in (size, begun):
                    break
                if buffers.clock_s() > turn_ends_s:
                    self._later()
                    break
        except ssl.SSLError as error:
            self._break_off(fault_of(error))
        finally:
            if incoming.pending or fed < size:
                if incoming.pending:  # OpenSSL takes one record after the other, so another one begins there
                    self._left = 0
                rest = incoming.read() + received[fed:]
                self._rest = b"" if self._is_over else rest
            if self._reads is (self._is_held or self._goes_on_later):
                self._set_reading()

    def _end_of_feed(self, received: bytes | memoryview, begin: int) -> int:
        """How far to decrypt next: never to the midst of a record's head."""
        size = len(received)
        if size > _HEAD_BYTES and not (begin or self._left) and size == _HEAD_BYTES + (received[3] << 8) + received[4]:
            return size  # as a small request comes
        end, position = min(size, begin + FED_BYTES), begin + self._left
        for _ in range(FED_RECORDS):
            if position + _HEAD_BYTES > end:
                break  # the next head is not whole
            position += _HEAD_BYTES + (received[position + 3] << 8) + received[position + 4]
        if position < end:
            end = position
        self._left = position - end
        return end

    def _speaks_tls(self, received: bytes | memoryview) -> bool:
        if received[0] == _HANDSHAKE or (received[0] == _ALERT and not self._tls.server_side):
            return True
        self._break_off(NO_CLIENT if self._tls.server_side else NO_SERVER, says_why=False)
        return False

    def _shake_hands(self, more: int = 0) -> bool:
        """Whether it is done, with so many bytes more. Behind its end as much may come as the peer likes."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._unfinished += more
            if self._unfinished > HANDSHAKE_BYTES:
                self._break_off(f"the handshake is longer than {HANDSHAKE_BYTES} bytes")
            return False
        except ssl.SSLError as error:
            self._break_off(fault_of(error))
            return False
        finally:
            self._flush()
        self.is_secured = True
        if self._timer is not None:
            self._timer.cancel()
        self._watcher.secured(self)
        return not self._is_over

    def _deliver(self) -> None:
        """Give the protocol what has come, as far as it takes it."""
        self._delivers = True
        try:
            has_more = True
            while has_more and not (self._is_held or self._is_over):
                count, has_more, has_ended = self._decrypt(self.protocol.get_buffer(-1))
                if self._buffers.outgoing.pending:
                    self._flush()
                if self._answers > ANSWERS_BYTES:
                    self._break_off(ONLY_KEYS, says_why=False)
                    return
                if count:
                    self.protocol.buffer_updated(count)
                if has_ended:
                    self.close()
                    return
        finally:
            self._delivers = False

    def _decrypt(self, room: Any) -> tuple[int, bool, bool]:
        """How many bytes came into the room, whether there may be more, and whether the peer has said goodbye."""
        incoming, count, size = self._buffers.incoming, 0, len(room)
        read: Callable[[int, Any], Any] = self._tls.read  # where there is room to read into: a number
        try:
            while count < size:
                one = read(size - count, room[count:] if count else room)
                if not one:
                    return count, False, True
                count += one
                if count < size and not incoming.pending:  # of a record nothing is left where there is room for more
                    return count, False, False
        except ssl.SSLWantReadError:
            return count, False, False
        return count, True, False

    def _flush(self) -> None:
        if self._buffers.outgoing.pending:
            answer = self._buffers.outgoing.read()
            self._answers += len(answer) if self._is_blocked else 0
            self._raw.write(answer)

    def _say_goodbye(self) -> None:
        """OpenSSL looks for the peer's goodbye at once: what has come for others is put aside."""
        incoming = self._buffers.incoming
        aside = incoming.read() if incoming.pending else b""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the peer has not answered yet, or nothing can be said any more
        finally:
            self._flush()
            if aside:
                incoming.write(aside)

    def _later(self) -> None:
        if not (self._goes_on_later or self._is_over):
            self._goes_on_later = True
            self._set_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on_later = False
        if self._is_over or self._is_held:
            return
        if self._rest or (self.is_secured and self._tls.pending()):
            try:
                self._feed(self._rest)
            except BaseException:  # as the transport does where it calls
                self.abort()
                raise
        else:
            self._set_reading()

    def _set_reading(self) -> None:
        reads = not (self._is_held or self._goes_on_later)
        if reads != self._reads and not self._raw.is_closing():
            self._reads = reads
            if reads:
                self._raw.resume_reading()
            else:
                self._raw.pause_reading()

    def _too_slow(self) -> None:
        """Who has said nothing at all, as one who only looks whether a process lives, is not told of."""
        if self._tls.server_side and not self._has_begun:
            self.abort()
            return
        self._break_off(f"the TLS handshake was not done within {HANDSHAKE_S:.0f} s", says_why=False)

    def _break_off(self, fault: str, *, says_why: bool = True) -> None:
        """End the connection, after the alert that OpenSSL has made, if it has: it has a moment to leave."""
        if self._is_over:
            return
        self._end()
        self._says_why = says_why
        self._flush()
        self._watcher.broken(self, fault)
        if says_why:
            self._raw.close()
            asyncio.get_running_loop().call_later(GOODBYE_S, self._raw.abort)
        else:
            self._raw.abort()

    def _end(self) -> None:
        self._is_over = True
        self._rest = b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
