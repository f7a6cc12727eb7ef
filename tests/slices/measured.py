"""A node that has much, and what the largest requests to it do to its event loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final, NamedTuple

from tests.slices.monitor import WatchedNode
from tests.slices.requests import Filling, Shape, There
from tests.wire.raw_client import RawClient

from penstock.controller.decisions import DECISIONS, decision_on
from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, Handler, load_handlers
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.requests.api import AnyApiKey, ApiKey, api_of
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.schema import Message
from penstock.testing.ports import ReservedPort

DESTROYS: Final = (ApiKey.DELETE_TOPICS,)
"""What comes last."""
LIMIT_S: Final = 120
SETTINGS: Final = {
    "penstock.metrics.listener": ":0",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "100000000",
    "log.flush.start.offset.checkpoint.interval.ms": "100000000",
    "replica.high.watermark.checkpoint.interval.ms": "100000000",
}
"""What a node does by the clock, whatever it is asked, is not measured."""


class Case(NamedTuple):
    handler: Handler
    version: int
    shape: Shape
    is_for_controller: bool


Versions = Callable[[Handler], Iterable[int]]


def cases(many: int, versions: Versions) -> Iterator[Case]:
    """Every API of both kinds of nodes, in these versions; as many shapes as a request has depths."""
    doors = ((BROKER_HANDLERS, False), (CONTROLLER_HANDLERS, True))
    asked = [(door, handler) for package, door in doors for handler in load_handlers(package).values()]
    asked.sort(key=lambda one: (one[1].api_key in DESTROYS, one[0], one[1].api_key))
    for is_for_controller, handler in asked:
        depth = _depth(api_of(handler.api_key).request_class)
        for version in versions(handler):
            yield Case(handler, version, Shape(many, 1), is_for_controller)
            if depth > 1:
                yield Case(handler, version, Shape(1, many), is_for_controller)


def newest(handler: Handler) -> Iterable[int]:
    return [handler.newest]


def every(handler: Handler) -> Iterable[int]:
    return range(handler.lowest, handler.newest + 1)


def older_layouts(handler: Handler) -> Iterable[int]:
    """The newest version with each array that newer ones have no more: what is cut may have another name there."""
    cls = api_of(handler.api_key).request_class
    older = range(handler.lowest, handler.newest)
    return [version for version in older if _arrays(cls, version) - _arrays(cls, version + 1)]


def _arrays(cls: type[Message], version: int) -> set[str]:
    """Those that it has, within others as well, by their ways."""
    arrays = {name: field.kind for name, field in cls.__fields__.items() if field.is_array and field.is_in(version)}
    within = [
        f"{name}.{way}" for name, kind in arrays.items() if not isinstance(kind, str) for way in _arrays(kind, version)
    ]
    return {*arrays, *within}


def _depth(cls: type[Message]) -> int:
    """How deep arrays lie in arrays."""
    arrays = [field.kind for field in cls.__fields__.values() if field.is_array]
    return max((1 + (0 if isinstance(kind, str) else _depth(kind)) for kind in arrays), default=0)


@contextmanager
def full_node(directory: str, many: int, *, counts_lines: bool) -> Iterator[tuple[WatchedNode, There]]:
    load_handlers(CONTROLLER_HANDLERS)
    for key, handler in load_handlers(BROKER_HANDLERS).items():
        _ = api_of(key).request_class, api_of(key).response_class, import_module(handler.function.__module__)
    for key in DECISIONS:
        decision_on(api_of(key).request_class())
    gc.collect()
    gc.freeze()
    gc.disable()  # it takes its time from whoever happens to run
    port = ReservedPort()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{port.address}",
        "controller.quorum.voters": f"1@{port.address}",
    }
    with ExitStack() as stack:
        stack.callback(gc.enable)
        stack.callback(port.release)
        node = WatchedNode(SETTINGS | listeners | {"log.dirs": directory}, counts_lines=counts_lines)
        stack.enter_context(node)
        port.release()
        yield node, _filled(node, many)


def _filled(node: WatchedNode, many: int) -> There:
    names = ["deep", *(f"t-{number}" for number in range(many // 10))]
    topics = [CreatableTopic(name=n, num_partitions=many if n == "deep" else 1, replication_factor=1) for n in names]
    with RawClient(node.address) as client:
        client.socket.settimeout(LIMIT_S)
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=LIMIT_S * 1000))
        client.find_coordinator("g")
        found = {topic.name: topic.topic_id for topic in client.ask(MetadataRequest(topics=None)).topics}
    return There(names, [found[name] for name in names], many, "g")


def ask(node: WatchedNode, there: There, case: Case) -> None:
    """`node.longest` is the longest slice then."""
    request = Filling(there, case.shape, key_of(case.handler), case.version).request()
    ask_for(node, request, case.version, is_for_controller=case.is_for_controller)


def ask_for(node: WatchedNode, request: Message, version: int, *, is_for_controller: bool = False) -> None:
    with RawClient(node.controller_address if is_for_controller else node.address) as client:
        client.socket.settimeout(LIMIT_S)
        node.begin()
        client.send_bytes(encode_request(request, version, 7, "raw"))
        client.receive_frame()
        client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))  # the slice has ended


def key_of(handler: Handler) -> AnyApiKey:
    return api_of(handler.api_key).key


def name_of(case: Case) -> str:
    door = "controller-" if case.is_for_controller else ""
    return f"{door}{key_of(case.handler).name}-{case.version}-{'wide' if case.shape.wide > 1 else 'deep'}"
