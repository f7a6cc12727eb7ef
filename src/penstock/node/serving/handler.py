"""How an API is declared: one function per API, registered under its key with the versions that it serves.

There is a table for each role of a node. Handlers in `penstock.node.api.broker` serve the listeners of the broker, and
get the `Broker` first; those in `penstock.node.api.controller` serve those of the controller, and get the
`ControllerNode`. A connection has the table of its listener from the beginning.

A handler gets the decoded request and returns the response message at once, or something to await when it has to wait.
A message that is always the same may be returned as its bytes. `None` means that the request has no response (Produce
with acks=0). A raw handler (Produce, Fetch) gets the frame itself and the position of the body, and returns the parts
of the whole response, length first.

Error codes belong in the response, in its own layout, so a handler puts them there itself. An exception that leaves a
handler is the node's fault or the peer's garbage: it is logged once and the connection is closed.

Requests of one connection are taken in order, and one that waits holds back those behind it, as Kafka's muted channels
do. Only those that are `pipelined` (produce requests whose replicas are still to answer) may wait together.

An API whose requests come again and again, byte for byte, may say that it `repeats`: a request that is known is not
decoded anew, so its handler must not change it.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.node.serving.access import NOTHING, Need
from penstock.node.serving.session import Session
from penstock.protocol.value import Value

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(slots=True)
class RequestContext:
    """Who asks, and how: the request's header, and the other end of the connection that it came by."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    session: Session


class Handler(Value):
    """One API as this node serves it: versions `lowest` to `newest`, both included. One that is `for_nodes` is told to
    our own clients alone.
    """

    api_key: int
    lowest: int
    newest: int
    function: Callable[..., Any | Awaitable[Any]]
    raw: bool = False
    pipelined: bool = False
    repeats: bool = False
    needs: tuple[Need, ...] = NOTHING
    for_nodes: bool = False


BROKER_HANDLERS: Final = "penstock.node.api.broker"
CONTROLLER_HANDLERS: Final = "penstock.node.api.controller"

_declared: dict[str, dict[int, Handler]] = {}
"""By the package that a handler lies in, and its API key."""


class CloseConnection(Exception):  # noqa: N818 - an order, not an error of ours
    """Raised by a handler to close the connection without an answer; the text says why, for the log.

    Connections that are closed for the same `cause`, by default because their host sent what it should not, are told
    of together (see `refusals`).
    """

    def __init__(self, reason: str, cause: Hashable = None) -> None:
        super().__init__(reason)
        self.cause = cause


def handles(
    api_key: int,
    versions: tuple[int, int],
    *,
    needs: tuple[Need, ...],
    raw: bool = False,
    pipelined: bool = False,
    repeats: bool = False,
) -> Callable[[FunctionT], FunctionT]:
    """Declare the decorated function as the handler of `api_key` for `versions` (lowest and newest, both served).

    It belongs to the table of the package that it lies in. `needs` says which rights it is about.
    """

    def declare(function: FunctionT) -> FunctionT:
        table = _declared.setdefault(function.__module__.rpartition(".")[0], {})
        assert api_key not in table, f"two handlers for API key {api_key}"
        table[api_key] = Handler(int(api_key), versions[0], versions[1], function, raw, pipelined, repeats, needs)
        return function

    return declare


def load_handlers(package_name: str = BROKER_HANDLERS) -> dict[int, Handler]:
    """Import every module that the package lists and return what they declare, and what it passes on, by API key."""
    package = importlib.import_module(package_name)
    for module in package.MODULES:
        importlib.import_module(f"{package_name}.{module}")
    return dict(sorted({**_declared[package_name], **package.PASSED_ON}.items()))
