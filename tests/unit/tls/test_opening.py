"""The opening of a client's connection over TLS."""

from __future__ import annotations

import gc
import ssl
import weakref

from tests.unit.tls.ends import Inner

from penstock.tls.opening import Opening


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
