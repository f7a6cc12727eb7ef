"""A short request has no answer without end: what it names again and again is told of once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.slices.measured import LIMIT_S, Case, cases, full_node, key_of, name_of, newest
from tests.slices.monitor import WatchedNode
from tests.slices.requests import GROUPS, Filling, Shape, There
from tests.wire.raw_client import TRANSACTION, RawClient, batch_of

from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.schema import Field

FAT: Final = "fat"
"""A topic, a group and a transaction of which there is much to tell."""
PARTITIONS: Final = 100
AGAIN: Final = 60
MOST_BYTES: Final = 200
"""Of an answer, for each time that something is named again: an error with its words, at most."""
EVERYTHING: Final = {(ApiKey.OFFSET_FETCH, "topics"), (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "topics")}
"""What may be left out, and means all that there is."""
QUESTIONS: Final = ("DESCRIBE", "OFFSET_FETCH")
"""They come first, before something else changes what there is to tell."""


def ordered() -> list[Case]:
    return sorted(cases(AGAIN, newest), key=lambda case: not key_of(case.handler).name.startswith(QUESTIONS))


class Repeating(Filling):
    """Names the same again and again."""

    asks_for_all = False

    def _value(self, name: str, item: Field, number: int, depth: int) -> Any:
        if self.asks_for_all and (self._key, name) in EVERYTHING:
            return None
        return super()._value(name, item, 0, depth)

    def _one(self, name: str, kind: Any, number: int, depth: int) -> Any:
        if name in GROUPS or name.startswith("transactional_id"):
            return FAT if isinstance(kind, str) else super()._one(name, kind, 0, depth)
        return super()._one(name, kind, 0, depth)


Fat = tuple[WatchedNode, There]


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fat]:
    with full_node(str(tmp_path_factory.mktemp("fat")), 10, counts_lines=False) as (node, _):
        with RawClient(node.address) as client:
            client.socket.settimeout(LIMIT_S)
            client.create_topic(FAT, partitions=PARTITIONS)
            topics = {topic.name: topic.topic_id for topic in client.ask(MetadataRequest(topics=None)).topics}
            _fill(client)
        yield node, There([FAT], [topics[FAT]], PARTITIONS, FAT)


def _fill(client: RawClient) -> None:
    every = [OffsetCommitRequestPartition(partition_index=n, committed_metadata="m" * 500) for n in range(PARTITIONS)]
    committed = OffsetCommitRequest(group_id=FAT, topics=[OffsetCommitRequestTopic(name=FAT, partitions=every)])
    client.find_coordinator(FAT)
    while any(one.error_code for topic in client.ask(committed, 9).topics for one in topic.partitions):
        pass
    client.find_coordinator(FAT, TRANSACTION)
    begin = InitProducerIdRequest(transactional_id=FAT, transaction_timeout_ms=600_000)
    while (me := client.ask(begin, 4)).error_code:
        pass
    added = client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=FAT,
            v3_and_below_producer_id=me.producer_id,
            v3_and_below_producer_epoch=me.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=FAT, partitions=list(range(PARTITIONS)))],
        ),
        3,
    )
    rows = [row for topic in added.results_by_topic_v3_and_below for row in topic.results_by_partition]
    assert {row.partition_error_code for row in rows} == {0}
    for producer_id in range(1000, 1000 + PARTITIONS):
        batch = batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        assert client.produce(FAT, batch).error_code == 0


@pytest.mark.parametrize("asks_for_all", [False, True], ids=["named", "everything"])
@pytest.mark.parametrize("case", ordered(), ids=name_of)
def test_what_is_named_again_is_not_told_again(fat: Fat, case: Case, asks_for_all: bool) -> None:
    if asks_for_all and not any(key == case.handler.api_key for key, _ in EVERYTHING):
        return
    node, there = fat
    once = Shape(min(case.shape.wide, 1), min(case.shape.deep, 1))
    short, long = (_answered(node, there, case._replace(shape=shape), asks_for_all) for shape in (once, case.shape))
    assert long - short <= (AGAIN - 1) * MOST_BYTES


def _answered(node: WatchedNode, there: There, case: Case, asks_for_all: bool) -> int:
    """The bytes of the answer."""
    filling = Repeating(there, case.shape, key_of(case.handler), case.version)
    filling.asks_for_all = asks_for_all
    with RawClient(node.controller_address if case.is_for_controller else node.address) as client:
        client.socket.settimeout(LIMIT_S)
        client.send_bytes(encode_request(filling.request(), case.version, 7, "raw"))
        return len(client.receive_frame())
