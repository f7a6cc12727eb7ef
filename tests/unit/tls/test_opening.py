"""The opening of a client's connection over TLS."""

from __future__ import annotations

import gc
import ssl
import weakref
from typing import Any, cast

from tests.unit.tls.ends import Inner, Wire

from penstock.tls.faults import WRONG_NAME
from penstock.tls.layer import TlsBuffers
from penstock.tls.opening import Opening
from penstock.tls.web import ROOM_BYTES, _Unbuffered


async def test_what_there_was_never_a_connection_for_leaves_nothing_for_the_collector() -> None:
    gc.disable()
    try:
        opening = Opening(Inner(), ssl.create_default_context(), "localhost", lambda _: None)
        layer = opening.hand_out_layer()
        ended = weakref.ref(opening)
        del opening, layer
        assert ended() is None
    finally:
        gc.enable()


def opened(told: list[str]) -> Opening:
    return Opening(Inner(), ssl.create_default_context(), "localhost", told.append)


async def test_the_first_fault_is_the_cause_and_each_is_told() -> None:
    told: list[str] = []
    opening = opened(told)
    layer = opening.hand_out_layer()
    assert (opening.done.is_set(), opening.fault) == (False, "")
    opening.broken(layer, "first")
    assert opening.done.is_set()
    opening.broken(layer, "second")
    assert (opening.fault, told) == ("first", ["first", "second"])
    opening.lost(layer)
    good = opened(told)
    good.secured(good.hand_out_layer())
    assert (good.done.is_set(), good.fault) == (True, "")


async def test_names_are_looked_for_where_the_certificate_is_for_others() -> None:
    opening = opened([])
    assert await opening.names_instead("127.0.0.1", 1) == ""
    opening.fault = "something else"
    assert await opening.names_instead("127.0.0.1", 1) == ""
    opening.fault = f"{WRONG_NAME}: a"
    assert await opening.names_instead("127.0.0.1", 1) == "", "nobody listens there"


async def test_a_connection_may_have_buffers_of_its_own() -> None:
    context, buffers = ssl.create_default_context(), TlsBuffers()
    for given in (buffers, None):
        opening = Opening(Inner(), context, "localhost", print, given)
        assert (opening.hand_out_layer()._buffers is buffers) is (given is buffers)


class Told:
    """A protocol that wants bytes, and notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, *given))


def test_a_protocol_that_wants_bytes_gets_each_call() -> None:
    told, wire, error = Told(), Wire(), ValueError()
    one = _Unbuffered(cast("Any", told))
    one.connection_made(wire)
    room = one.get_buffer(-1)
    assert len(room) == ROOM_BYTES == 16_384
    room[:5] = b"abcde"
    one.buffer_updated(3)
    room[:1] = b"x"
    one.pause_writing()
    one.resume_writing()
    one.connection_lost(error)
    assert told.calls == [
        ("connection_made", wire),
        ("data_received", b"abc"),
        ("pause_writing",),
        ("resume_writing",),
        ("connection_lost", error),
    ]
