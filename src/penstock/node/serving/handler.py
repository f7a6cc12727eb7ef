"""How an API is declared: one function per API, registered under its key with the versions that it serves.

There is a table for each role of a node. Handlers in `penstock.node.api.broker` serve the listeners of the broker, and
get the `Broker` first; those in `penstock.node.api.controller` serve those of the controller, and get the
`ControllerNode`; those in `penstock.node.api` itself serve both. A connection has the table of its listener from the
beginning.

A handler gets the decoded request and returns the response message at once, or something to await when it has to wait.
A handler whose work grows with what is asked, or with what the node holds, is a generator, which is taken in slices
(`slices`). A message that is always the same may be returned as its bytes. `None` means that the request has no
response (Produce with acks=0). A raw handler (Produce, Fetch) gets the frame itself and the position of the body, and
returns the parts of the whole response, length first.

Error codes belong in the response, in its own layout, so a handler puts them there itself. An exception that leaves a
handler is the node's fault or the peer's garbage: it is logged once and the connection is closed.

Requests of one connection are taken in order, and one that waits holds back those behind it, as Kafka's muted channels
do. Only those that are `pipelined` (produce requests whose replicas are still to answer) may wait together.

Who asks is judged between decoding and the handler, by the rule that is declared with it (`rules`): a handler without a
rule does not load. For what a rule leaves to the handler, the handler asks `RequestContext.allows`.

An API whose requests come again and again, byte for byte, may say that it `repeats`: a request that is known is not
decoded anew, so its handler must not change it.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Generator, Hashable
from dataclasses import dataclass
from functools import cache
from types import GeneratorType
from typing import Any, Final, Protocol, TypeVar

from penstock.node.metrics.counts import ApiCounts
from penstock.node.serving.access import (
    ALL_ON,
    ALLOW_ALL,
    CLUSTER_ACTION,
    DESCRIBE_CLUSTER,
    RIGHTS_ON,
    Authorizer,
    Right,
    bits,
)
from penstock.node.serving.parts import Names
from penstock.node.serving.rules import Rule
from penstock.node.serving.session import NODES_CLIENT_ID, Session
from penstock.node.serving.slices import Steps
from penstock.protocol.acls import CLUSTER_NAME, Resource
from penstock.protocol.value import Value

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

NODES: Final = "nodes"
NOT_TOLD: Final = ApiCounts()
"""Counts that nobody is told: of requests that came in another, or by no connection."""


class Charge(Protocol):
    """What one request costs by the quotas of its client (`throttle`)."""

    most_fetched: int
    """The bytes that a fetch may bring."""

    def waits(self, answer: Awaitable[Any]) -> Awaitable[Any]:
        """The answer comes later, and what is done for it until then is counted as well."""

    def is_of_a_node(self) -> None:
        """Nodes among themselves have no quotas."""

    def fetch_owed_ms(self) -> int:
        """For how long this client gets no records; with more than 0 the answer is to say so, and to have none."""

    def add_ms(self, throttle_time_ms: int) -> None:
        """Another node found that this client has to wait."""


@dataclass(slots=True)
class RequestContext:
    """The client and its request: the request's header, and the other end of the connection that it came by."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    session: Session
    authorizer: Authorizer = ALLOW_ALL
    charge: Charge | None = None
    """None where no quota holds for the client."""
    counts: ApiCounts = NOT_TOLD
    """What this request counts with."""

    def allows(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may have what it wants; see `access` for the three questions."""
        return self.authorizer.allows(self.session, right, name, self.api_key)

    def has(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return self.authorizer.has(self.session, right, name)

    def has_any(self, right: Right) -> Generator[None, None, bool]:
        return self.authorizer.has_any(self.session, right)

    def shows(self, right: Right, name: str) -> bool:
        return self.authorizer.shows(self.session, right, name)

    def operations_on(self, resource: Resource, name: str) -> int:
        """What the client may do with the resource of that name, in bits (KIP-430)."""
        if self.authorizer is ALLOW_ALL:
            return ALL_ON[resource]
        return bits(right.operation for right in RIGHTS_ON[resource] if self.has(right, name))

    @property
    def comes_from_a_node(self) -> bool:
        """Whether it has a node's name and a node's right. Where all is allowed, the name has to do."""
        return NODES_CLIENT_ID.fullmatch(self.client_id or "") is not None and self.has(CLUSTER_ACTION)

    @property
    def asker(self) -> Hashable:
        """Who takes turns with others: a host, and beside its clients the nodes that are there."""
        host = self.session.client_host
        return (host, NODES) if self.comes_from_a_node else host

    @property
    def cluster_operations(self) -> int:
        """What the client may do with the cluster: nothing, if it may not even describe it."""
        return self.operations_on(Resource.CLUSTER, CLUSTER_NAME) if self.has(DESCRIBE_CLUSTER) else 0


class Handler(Value):
    """One API as this node serves it, in versions `lowest` to `newest`, to clients with the rights that `rule` names.

    One that is `for_nodes` is told to our own clients alone. One that `hands_on` leaves it to the controller to judge,
    which answers, here or on another node. What has an item in the answer for each in the request names both arrays in
    `parts`: a large request is then asked in parts (`parts`). Clients are told of it where its `feature`, if it has
    one, is at level 1 or above. One that `ends_with_client` is cancelled when the client goes while it waits: what it
    holds would stay as long as others are waited for. Neither that one holds room for the objects of a large request
    while it waits, nor one that `polls`: that waits as long as its client says, brings what waits so, or creates
    topics. One that `asks_controller` has room beside the others while it waits. What nodes ask takes its room at once,
    but for one that `carries` what clients ask. Records in the answer of one that `has_files` may lie in files.
    """

    api_key: int
    lowest: int
    newest: int
    function: Callable[..., Any | Awaitable[Any]]
    rule: Rule
    raw: bool = False
    pipelined: bool = False
    repeats: bool = False
    for_nodes: bool = False
    hands_on: bool = False
    parts: Names = ()
    feature: str | None = None
    ends_with_client: bool = False
    polls: bool = False
    asks_controller: bool = False
    carries: bool = False
    has_files: bool = False


def later(module: str, *, in_slices: bool = False) -> Callable[..., Any]:
    """The function of a module that has its name, for a handler: loaded when the first request comes.

    `in_slices`: a generator, of long answers, of which a thread makes bytes.
    """

    @cache
    def loaded() -> Callable[[Any, RequestContext, Any], Any]:
        found: Callable[[Any, RequestContext, Any], Any]
        found = getattr(importlib.import_module(module), module.rpartition(".")[2])
        return found

    def steps(node: Any, context: RequestContext, request: Any) -> Steps[Any]:
        found = loaded()(node, context, request)
        if type(found) is GeneratorType:
            return (yield from found)
        return (yield found) if isinstance(found, Awaitable) else found

    def answer(node: Any, context: RequestContext, request: Any) -> Any:
        found = loaded()(node, context, request)
        return node.slices.answer(found) if type(found) is GeneratorType else found

    function = steps if in_slices else answer
    function.__module__ = module
    return function


EVERY_NODES_HANDLERS: Final = "penstock.node.api"
BROKER_HANDLERS: Final = "penstock.node.api.broker"
CONTROLLER_HANDLERS: Final = "penstock.node.api.controller"

_declared: dict[str, dict[int, Handler]] = {}
"""By the handler's package and API key."""


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
    rule: Rule,
    raw: bool = False,
    pipelined: bool = False,
    repeats: bool = False,
    parts: Names = (),
    ends_with_client: bool = False,
    polls: bool = False,
    carries: bool = False,
) -> Callable[[FunctionT], FunctionT]:
    """Declare the decorated function as the handler of `api_key` for `versions` (lowest and newest, both served).

    It belongs to the table of the package that it lies in. `rule` says which rights the client needs.
    """

    def declare(function: FunctionT) -> FunctionT:
        table = _declared.setdefault(function.__module__.rpartition(".")[0], {})
        assert api_key not in table, f"two handlers for API key {api_key}"
        table[api_key] = Handler(
            int(api_key),
            *versions,
            function,
            rule,
            raw=raw,
            pipelined=pipelined,
            repeats=repeats,
            parts=parts,
            ends_with_client=ends_with_client,
            polls=polls,
            carries=carries,
        )
        return function

    return declare


def load_handlers(package_name: str = BROKER_HANDLERS) -> dict[int, Handler]:
    """What the modules declare that the package lists, what every node serves, and what the package passes on."""
    handlers: dict[int, Handler] = {}
    for name in (EVERY_NODES_HANDLERS, package_name):
        for module in importlib.import_module(name).MODULES:
            importlib.import_module(f"{name}.{module}")
        handlers |= _declared[name]
    handlers |= importlib.import_module(package_name).PASSED_ON
    lawless = [key for key, handler in handlers.items() if not handler.rule]
    if lawless:
        raise TypeError(f"{package_name} serves {lawless} and does not say to whom")
    return dict(sorted(handlers.items()))
