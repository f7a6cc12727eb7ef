"""One client connection: frames in, responses out, in the order of the requests.

Bytes are received into a buffer that all connections share, so an idle connection costs little more than its socket.
Frames that are whole in it are handled there, without a copy. Of a frame that is not whole, the beginning is copied
into a buffer of the frame's own size, and the rest is received straight into that.

A connection is *held* while it must not take another request: one waits that is not pipelined, or one is next that is
not, behind others that wait; too many wait; the peer does not read; or its turn is over: who has sent thousands of
requests, or filled a buffer, behind which uvloop would read on at once, lets others do something first, and where very
many have sent something, the last ones wait for the loop's next turn. Bytes that come meanwhile are kept in `_backlog`
up to a limit, then reading stops. A connection's memory is bounded by its limits, that of all by `RequestMemory`.

| state     | it begins with                                            | it ends with                                |
| --------- | --------------------------------------------------------- | ------------------------------------------- |
| reading   | connection_made, or the last cause to hold being gone     | a cause to hold                             |
| held      | a waiting request, `MAX_WAITING`, unsent bytes, `TURN_NS`,| its response, resume_writing, the next turn |
|           | a large frame, or a piece of it, that finds no memory     | others giving back theirs                   |
|           | a quota that is exceeded                                  | the time that the client was told           |
| closed    | the peer leaves, garbage, a handler's exception, idle     | -                                           |
"""

import asyncio
import logging
import struct
from collections.abc import Hashable
from functools import partial
from typing import Any, cast

from penstock.node.serving.connections import Connections
from penstock.node.serving.dispatch import OnAnswer, Waiting, request_log
from penstock.node.serving.frames import FREE_BYTES, FULL_BUFFERS, LATE_BYTES, READ_BYTES, SHORT_BYTES
from penstock.node.serving.handler import CloseConnection
from penstock.node.serving.late_answer import LateAnswer, Slot, hasten
from penstock.node.serving.outgoing import CHUNK_BYTES, FileCutError, Outgoing, ResponsePart, peer_of
from penstock.node.serving.parts import is_long
from penstock.node.serving.refusals import no_length
from penstock.node.serving.room import Peer
from penstock.node.serving.session import Session
from penstock.protocol.errors import DecodeError

logger = logging.getLogger(__name__)

MAX_WAITING = 128
"""Requests of one connection that may wait for their answer at once."""
MAX_BACKLOG_BYTES = 16 * 1024
"""Bytes that a held connection keeps before it stops reading."""
TURN_NS = 2_000_000
"""How long the requests of one connection are taken before the others have their turn."""
_unpack_length = struct.Struct(">i").unpack_from


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_backlog",
        "_buffers",
        "_closed",
        "_connections",
        "_ending",
        "_filled",
        "_frame",
        "_frame_size",
        "_held_by_request",
        "_is_muted",
        "_lacks_memory",
        "_listener",
        "_max_frame_bytes",
        "_memory",
        "_out",
        "_proceeds_later",
        "_reading_paused",
        "_room",
        "_transport",
        "_turn_is_over",
        "_waiting",
        "began_ns",
        "session",
    )

    _frame_limit = "socket.request.max.bytes"

    def __init__(self, connections: Connections, listener: str) -> None:
        self.session: Session | None = None
        self._connections = connections
        self._buffers = connections.buffers
        self._memory = connections.memory
        self._max_frame_bytes = self._buffers.max_frame_bytes
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._frame: memoryview | None = None
        self._frame_size = self._filled = self._room = self.began_ns = 0
        self._backlog, self._out = b"", Outgoing()
        self._waiting: list[Slot] = []
        self._held_by_request = self._lacks_memory = self._reading_paused = False
        self._turn_is_over = self._proceeds_later = self._is_muted = self._ending = self._closed = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start reading, unless a limit refuses the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.session = self._connections.admit(self, transport, self._listener)
        if self.session is None:
            self.abort()
        self._transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a frame that is not whole yet, else the shared buffer, little if it may be kept."""
        if self._frame is not None and self._filled < self._frame_size:
            return self._frame[self._filled : self._room]
        few = LATE_BYTES if self._connections.is_late else SHORT_BYTES if self._memory.wishes else 0
        return self._buffers.shared[:few] if few else self._buffers.shared

    def buffer_updated(self, nbytes: int) -> None:
        self.began_ns = self._connections.dispatcher.clock_ns()
        self._connections.active.move_to_end(self)
        if self.began_ns >= self._connections.looks_ns and self._connections.look(self.began_ns):
            self._end_turn()  # before it has begun
        if self._frame is None:
            if self._backlog or self._held:
                self._keep(self._buffers.shared[:nbytes])
            else:
                self._take(self._buffers.shared, nbytes)
        elif self._filled < self._frame_size:
            self._filled += nbytes
            if self._filled == self._room < self._frame_size:
                self._has_memory(self._frame_size, self._frame[: self._filled])
                self._end_turn()
        else:
            self._keep(self._buffers.shared[:nbytes])
        self._proceed()
        if nbytes >= SHORT_BYTES and nbytes in FULL_BUFFERS:
            self._end_turn()

    def pause_writing(self) -> None:
        """The peer does not read: take no more requests from it."""
        assert self._transport is not None
        self._out.is_blocked = True
        if (held := self._out.held_bytes()) > FREE_BYTES:
            self._memory.charge(self._out, held, self._peer("does not read its answer"))

    def resume_writing(self) -> None:
        self._out.is_blocked = False
        self._proceed()
        if not (self._out or self._out.is_blocked):
            self._memory.give(self._out)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what the connection holds; a fetch that waits is called off."""
        self._closed, self._backlog = True, b""
        self._out.clear()
        self._give_back_frame()
        self._memory.give(self._out)
        waiting, self._waiting = self._waiting, []
        for slot in waiting:
            slot.client_has_gone()
        if self.session is not None:
            self._connections.remove(self, self.session)

    # What the server calls

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def mute(self, seconds: float) -> None:
        """Take no more requests for so long (KIP-219); what waits is answered all the same."""
        self._is_muted = True
        if self.session is not None:
            self._pause_reading()
        self._connections.unmute_later(self, seconds)

    def unmute(self) -> None:
        self._is_muted = False
        self._proceed_now()

    def close_when_answered(self) -> None:
        """Take no more requests, and close when those that wait are answered."""
        self._ending = True
        self._proceed()

    def close(self) -> None:
        """Close once everything written is sent."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Unsent bytes are lost."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    # Frames in

    @property
    def _held(self) -> bool:
        return (
            self._held_by_request
            or self._out.is_blocked
            or self._lacks_memory
            or self._ending
            or self._closed
            or self._turn_is_over
            or self._is_muted
            or len(self._waiting) >= MAX_WAITING
        )

    def _take(self, received: memoryview, end: int) -> None:
        """Handle the whole frames in `received[:end]` as far as this turn goes, which begins now; keep the rest."""
        position, turn_ends_ns, out = 0, self.began_ns + TURN_NS, self._out
        is_watched = self._connections.throttling.active is not None or request_log.isEnabledFor(logging.DEBUG)
        while end - position >= 4:
            (size,) = _unpack_length(received, position)
            if not 0 < size <= self._max_frame_bytes:
                self._refuse(no_length(size, self._max_frame_bytes, self._frame_limit))
                return
            begin = position + 4
            if begin + size > end:
                if self._has_memory(size, received[begin:end]):
                    self._start_frame(received[begin:end], size)
                    return
                break
            frame = received[begin : begin + size]
            if self._waiting and not self._may_come(frame):
                break
            position = begin + size
            goes_on = self._handle(frame, is_watched)
            if out.queued_bytes >= CHUNK_BYTES:
                self._write()  # If the peer does not read, this holds the connection, before answers pile up.
                goes_on = False
            if position < end and self.began_ns > turn_ends_ns:
                self._end_turn()
                break
            if not goes_on and self._held:
                break
        if position < end:
            self._keep(received[position:end])

    def _end_turn(self) -> None:
        if not self._turn_is_over:
            self._turn_is_over = True
            self._pause_reading()
            self._connections.later(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_is_over = False
        self._proceed_now()

    def _keep(self, rest: memoryview) -> None:
        """Keep bytes for later: the connection is held, or they are less than a frame's length."""
        self._backlog = b"" if self._closed else self._backlog + bytes(rest)
        if len(self._backlog) > MAX_BACKLOG_BYTES and self._held:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not (self._reading_paused or self._closed):
            assert self._transport is not None
            self._transport.pause_reading()
            self._reading_paused = True

    def _has_memory(self, size: int, beginning: memoryview) -> bool:
        """Whether a frame may be received, or received on; if not, the connection is held until it may."""
        self._room = min(size, len(beginning) + READ_BYTES)
        if size > FREE_BYTES:
            if not self._waiting and (refusal := self._connections.dispatcher.refusal_of(beginning, self.session)):
                self._give_back_frame()
                self.fail(refusal)
                return False
            rest, peer = size - len(beginning), self._peer("does not send its request to the end")
            waits = partial(self._connections.dispatcher.waits_for_room, beginning, self.session)
            self._lacks_memory = not self._memory.take(self, self._room, self._memory_came, peer, rest, waits=waits)
            if self._lacks_memory:
                self._pause_reading()
        return not self._lacks_memory

    def _memory_came(self) -> None:
        self._lacks_memory = False
        self._proceed_now()

    def _peer(self, fault: str) -> Peer:
        assert self.session is not None
        assert self._transport is not None
        end = partial(self._connections.end_slow, self, fault)
        return peer_of(self.session, self._transport, self._out, lambda: self._filled, end)

    def _start_frame(self, beginning: memoryview, size: int) -> None:
        self._frame, self._frame_size, self._filled = self._buffers.take(size), size, len(beginning)
        self._frame[: self._filled] = beginning

    def _give_back_frame(self) -> None:
        if self._frame is not None:
            frame, self._frame = self._frame, None
            self._buffers.give(frame)
        self._memory.give(self)

    def _proceed(self) -> None:
        """Go on with what has arrived as far as nothing holds the connection, and write what is answered."""
        if self._out.queued_bytes:
            self._write()
        while (self._frame is not None or len(self._backlog) >= 4) and not self._held:
            if self._frame is None:
                # Handlers may change a frame in place (base offsets), so it must be writable.
                backlog, self._backlog = memoryview(bytearray(self._backlog)), b""
                self.began_ns = self._connections.dispatcher.clock_ns()
                self._take(backlog, len(backlog))
            elif self._filled < self._frame_size or (self._waiting and not self._may_come(self._frame)):
                break
            else:
                self.began_ns = self._connections.dispatcher.clock_ns()
                self._handle(self._frame[: self._frame_size], is_watched=True)
                self._give_back_frame()
                self._end_turn()
        if self._held_by_request and self._backlog:
            hasten(self._waiting, self._backlog)
        if self._out.queued_bytes:
            self._write()
        if self._ending and not self._waiting and not self._out:
            self.close()
        elif self._reading_paused and not self._held:
            assert self._transport is not None
            self._transport.resume_reading()
            self._reading_paused = False

    # Requests and their answers

    def _may_come(self, frame: memoryview) -> bool:
        """Whether a request is pipelined; one that is not is taken when those before it are answered.

        Its answer is sent behind theirs, and what it says must be true then: a client that asks for the leaders behind
        a produce request that waits for an election must not be told who led before.
        """
        self._held_by_request = not self._connections.dispatcher.is_pipelined(frame)
        return not self._held_by_request

    def _handle(self, frame: memoryview, is_watched: bool) -> bool:
        """Answer a request or let it wait; returns whether it is clear that nothing holds the connection."""
        assert self.session is not None
        dispatcher = self._connections.dispatcher
        try:
            on_answer, charge = self._connections.watch(frame, self, self.session) if is_watched else (None, None)
            reply = dispatcher.dispatch(frame, self.session, charge)
        except Exception as error:
            self.fail(error)
            return False
        took_ns, self.began_ns = (ended_ns := dispatcher.clock_ns()) - self.began_ns, ended_ns
        counts = (asked := dispatcher.counting).counts
        counts.sizes[(size := len(frame)).bit_length()] += 1
        counts.total_bytes += size
        if type(reply) is not list:
            self._wait(cast("Waiting", reply), on_answer, ended_ns - took_ns)
            return False
        counts.cells[asked.api_version][took_ns.bit_length()] += 1  # as ApiCounts.done does, without a call
        counts.total_ns += took_ns
        if on_answer is not None:
            on_answer(reply)
        if not self._waiting:
            self._out.add(reply)
            return on_answer is None
        elif reply:
            self._waiting.append(Slot(self, parts=reply))
        return False

    def _wait(self, waiting: Waiting, on_answer: OnAnswer | None, began_ns: int) -> None:
        slot = Slot(self, waiting.handler, on_answer, context=waiting.context, began_ns=began_ns)
        self._waiting.append(slot)
        self._held_by_request = not waiting.handler.pipelined
        charge = waiting.context.charge
        answer = waiting.answer if charge is None else charge.waits(waiting.answer)
        if isinstance(answer, LateAnswer):
            slot.wait_for(answer)
            return
        future = waiting.started(answer)
        if waiting.handler.raw or waiting.handler.ends_with_client:
            slot.call_off = future.cancel
        future.add_done_callback(slot.done)

    def came(self, slot: Slot, reply: Any) -> None:
        """A request that waited has its answer, which may have to be encoded."""
        if self._closed:
            return
        dispatcher, handler, context = self._connections.dispatcher, slot.handler, slot.context
        assert handler is not None
        assert context is not None
        try:
            if not handler.raw and is_long(reply):
                slot.handler = handler.replace(raw=True)
                encoding = asyncio.ensure_future(dispatcher.encode_apart(handler, context, reply))
                encoding.add_done_callback(slot.done)
                return
            self._told(slot, dispatcher.encode(handler, context, reply))
        except Exception as error:  # who tells has others to tell
            self.fail(error)

    def _told(self, slot: Slot, parts: list[ResponsePart]) -> None:
        """A request that waited has its answer: send it, with those behind it that are ready.

        No request is taken here: another connection may be in the middle of something, and more answers may come.
        """
        if self._closed:
            return
        slot.answered(parts, self._connections.dispatcher.clock_ns)
        waiting = self._waiting
        while waiting and waiting[0].parts is not None:
            self._out.add(waiting.pop(0).parts or [])
        self._held_by_request = self._held_by_request and bool(waiting)
        has_more = waiting or self._backlog or self._frame is not None
        if not (has_more or self._ending or self._reading_paused):
            self._write()
        elif not self._proceeds_later:
            self._proceeds_later = True
            self._connections.later(self._proceed_now)

    def _proceed_now(self) -> None:
        self._proceeds_later = False
        if not self._closed:
            self._proceed()

    def _write(self) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            self._out.clear()
            return
        try:
            if self._out.flush(self._transport):
                self._connections.later(self.resume_writing)
        except (FileCutError, OSError) as error:
            logger.error("%s: closed: a response cannot be read from the log: %s", self.session, error)
            self.abort()

    def fail(self, error: Exception) -> None:
        """A request cannot be answered: that is the end of the connection."""
        if isinstance(error, CloseConnection | DecodeError):
            self._refuse(str(error), getattr(error, "cause", None))
        else:
            logger.error("%s: closed: a request failed", self.session, exc_info=error)
            self._end()

    def _refuse(self, reason: str, cause: Hashable = None) -> None:
        assert self.session is not None
        self._connections.refusals.tell(self.session.client_host if cause is None else cause, self.session, reason)
        self._end()

    def _end(self) -> None:
        """Send what is answered, take nothing more, close."""
        if self._out:
            self._write()
        self.close()
