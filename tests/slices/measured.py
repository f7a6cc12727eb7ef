"""A node that has much, and what the largest requests to it do to its event loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

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

DESTROYS: Final = (ApiKey.DELETE_TOPICS,)
"""What comes last."""
LIMIT_S: Final = 120
SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "100000000",
    "log.flush.start.offset.checkpoint.interval.ms": "100000000",
    "replica.high.watermark.checkpoint.interval.ms": "100000000",
}
"""What a node does by the clock, whatever it is asked, is not measured."""

Case = tuple[Handler, int, Shape]


def cases(many: int, *, all_versions: bool) -> Iterator[Case]:
    """Every API that brokers serve, in the newest version or in all, with as many shapes as its request has depths."""
    handlers = load_handlers(BROKER_HANDLERS).values()
    for handler in sorted(handlers, key=lambda handler: (handler.api_key in DESTROYS, handler.api_key)):
        lowest = handler.lowest if all_versions else handler.newest
        depth = _depth(api_of(handler.api_key).request_class)
        for version in range(lowest, handler.newest + 1):
            yield handler, version, Shape(many, 1)
            if depth > 1:
                yield handler, version, Shape(1, many)


def _depth(cls: type[Message]) -> int:
    """How deep arrays lie in arrays."""
    arrays = [field.kind for field in cls.__fields__.values() if field.is_array]
    return max((1 + (0 if isinstance(kind, str) else _depth(kind)) for kind in arrays), default=0)


@contextmanager
def full_node(directory: str, many: int, *, counts_lines: bool) -> Iterator[tuple[WatchedNode, There]]:
    load_handlers(CONTROLLER_HANDLERS)  # modules are read once, at the first request
    import_module("penstock.node.api.storage_group_requests")
    for key in load_handlers(BROKER_HANDLERS):
        _ = api_of(key).request_class, api_of(key).response_class
    for key in DECISIONS:
        decision_on(api_of(key).request_class())
    gc.collect()
    gc.freeze()
    gc.disable()  # it takes its time from whoever happens to run
    try:
        with WatchedNode(SETTINGS | {"log.dirs": directory}, counts_lines=counts_lines) as node:
            yield node, _filled(node, many)
    finally:
        gc.enable()
        gc.unfreeze()


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
    handler, version, shape = case
    request = Filling(there, shape, key_of(handler), version).request()
    with RawClient(node.address) as client:
        client.socket.settimeout(LIMIT_S)
        node.begin()
        client.send_bytes(encode_request(request, version, 7, "raw"))
        client.receive_frame()
        client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))  # the slice has ended


def key_of(handler: Handler) -> AnyApiKey:
    return api_of(handler.api_key).key


def name_of(case: Case) -> str:
    handler, version, shape = case
    return f"{key_of(handler).name}-{version}-{'wide' if shape.wide > 1 else 'deep'}"
