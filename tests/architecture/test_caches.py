"""Whatever a client says may be as long as a request: no cache of a function keeps that for good."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import penstock
from penstock.metadata import acl_hosts
from penstock.protocol import hashing
from penstock.protocol.requests import topic_answers

SOURCES: Final = Path(penstock.__file__).parent

SHORT: Final = {
    "coordinator.group.consumer.records": "values of at most _SMALL_BYTES",
    "coordinator.group.streams.assignors.registry": "names that there are, as others raise",
    "coordinator.group.records": "keys of at most _USUAL_NAMES",
    "metadata.acl_hosts": "hosts of at most _LONGEST_KEPT",
    "metadata.configs.definitions": "keys that there are",
    "metadata.record_frames": "levels and classes",
    "node.api.broker.heartbeat": "numbers",
    "node.api.consumer_groups.consumer_group_heartbeat": "ids of at most USUAL_NAME",
    "node.api.coordinated": "ids of at most USUAL_NAME",
    "node.api.storage_group_requests": "nothing",
    "node.serving.handler": "nothing",
    "node.serving.throttle": "APIs and their versions that are served",
    "node.serving.dispatch": "bodies of at most REPEATED_BYTES",
    "node.telemetry.subscriptions": "patterns that administrators have set, of at most 5,000 letters",
    "pipeline.values.typed_values": "what the operator has set, in a process of his own",
    "protocol.acls": "classes",
    "protocol.due": "numbers",
    "protocol.hashing": "keys of at most _SHORT, and 100 beginnings of longer ones",
    "protocol.requests.api": "APIs, as other numbers raise",
    "protocol.requests.refusals": "classes",
    "protocol.requests.following": "this node's own id",
    "protocol.requests.produce": "names of at most 127 bytes, as their length is one byte",
    "protocol.requests.topic_answers": "names of at most _LONGEST_KEPT_NAME",
    "protocol.schema": "classes, and words of their fields",
    "protocol.source": "words of fields",
    "protocol.uuids": "16 bytes",
    "testing.simulator.disk": "paths in simulated worlds",
    "testing.simulator.stand_in_tls": "nothing",
    "work.connect.plugins": "the three kinds that there are",
}
"""What is kept by the caches of each file, and why that is short."""


def caches() -> Iterator[tuple[str, str]]:
    """The file and the text of each."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
            for one in (called, *decorators):
                if isinstance(one, ast.Name | ast.Attribute) and ast.unparse(one).split(".")[-1] in CACHES:
                    yield ".".join(path.relative_to(SOURCES).with_suffix("").parts), ast.unparse(node)


CACHES: Final = "lru_cache", "cache"


def test_of_each_cache_it_is_known_why_what_it_keeps_is_short() -> None:
    assert {file for file, _ in caches()} == set(SHORT)


def test_none_has_no_end_that_keeps_names() -> None:
    """Of these there are as many as somebody makes up."""
    endless = {file for file, text in caches() if text.startswith(("@cache", "cache(")) or "maxsize=None" in text}
    assert not {file for file in endless if " of at most " in SHORT[file]}


@pytest.mark.parametrize(
    ("cache", "call", "short", "long"),
    [
        (acl_hosts._kept_address, acl_hosts.address_of, ("10.0.0.1",), ("h" * 65,)),
        (hashing._short_hash, hashing.coordinator_partition, ("g", 50), ("g" * 201, 50)),
        (topic_answers._known_topic, topic_answers.encode_topic, ("t", True, 1), ("t" * 250, True, 1)),
    ],
    ids=["hosts", "hashes", "topics"],
)
def test_what_is_long_is_answered_alike_and_not_kept(cache: Any, call: Any, short: Any, long: Any) -> None:
    cache.cache_clear()
    call(*long)
    assert cache.cache_info().currsize == 0
    assert (call(*short), cache.cache_info().currsize) == (call(*short), 1)
