"""How an API is declared: one function per API, registered under its key with the versions that it serves.

A handler gets the decoded request and returns the response message at once, or something to await when it has to wait.
`None` means that the request has no response (Produce with acks=0). A raw handler (Produce, Fetch) gets the frame
itself and the position of the body, and returns the parts of the whole response, length first.

Error codes belong in the response, in its own layout, so a handler puts them there itself. An exception that leaves a
handler is the node's fault or the peer's garbage: it is logged once and the connection is closed.

Requests of one connection are taken in order, and one that waits holds back those behind it, as Kafka's muted channels
do; a `pipelined` handler does not (produce requests whose replicas are still to answer).
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(slots=True)
class RequestContext:
    """Who asks, and how: the request's header and the connection that it came by."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    connection_id: int
    principal: str = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Handler:
    """One API as this node serves it: versions `lowest` to `newest`, both included."""

    api_key: int
    lowest: int
    newest: int
    function: Callable[..., Any | Awaitable[Any]]
    raw: bool = False
    pipelined: bool = False


_declared: dict[int, Handler] = {}


class CloseConnection(Exception):  # noqa: N818 - an order, not an error of ours
    """Raised by a handler to close the connection without an answer; the text says why, for the log."""


def handles(
    api_key: int, versions: tuple[int, int], *, raw: bool = False, pipelined: bool = False
) -> Callable[[FunctionT], FunctionT]:
    """Declare the decorated function as the handler of `api_key` for `versions` (lowest and newest, both served)."""

    def declare(function: FunctionT) -> FunctionT:
        assert api_key not in _declared, f"two handlers for API key {api_key}"
        _declared[api_key] = Handler(int(api_key), versions[0], versions[1], function, raw, pipelined)
        return function

    return declare


def load_handlers() -> dict[int, Handler]:
    """Import every module that `penstock.node.handlers` lists and return what they declare, by API key."""
    package = importlib.import_module("penstock.node.handlers")
    for module in package.MODULES:
        importlib.import_module(f"{package.__name__}.{module}")
    return dict(sorted(_declared.items()))
