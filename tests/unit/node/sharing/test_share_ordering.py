"""Records of share groups in the order of their keys (share.ordering=key), whatever the batches are like."""

from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS, Node, produce_request
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, RELEASE, Member, acquired, change
from tests.unit.node.sharing.stand_in import sharing_node
from tests.unit.node.turns import until

from penstock.node.sharing.ordered import MOST_KEYS, OF_ONE, OrderedShared, keys_of
from penstock.node.sharing.shared import Aborts
from penstock.protocol.batch import CONTROL, DELAYED, TRANSACTIONAL, BatchHeader
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch

BY_KEY = EARLIEST.replace(name="share.ordering", value="key")


def batch_of(keys: str, codec: Compression = Compression.NONE) -> bytes:
    """A record for each letter, which is its key; `-` has none."""
    records = [
        Record(offset=at, timestamp_ms=NOW_MS, key=None if key == "-" else key.encode(), value=b"v", headers=[])
        for at, key in enumerate(keys)
    ]
    return bytes(encode_batch(records, compression=codec))


def produce(node: Node, keys: str, codec: Compression = Compression.NONE) -> None:
    node.ask(produce_request(batch_of(keys, codec)), 9)


@pytest.mark.parametrize("codec", list(Compression))
async def test_one_record_of_each_key_is_in_flight(tmp_path: Path, codec: Compression) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST, BY_KEY)
        produce(node, "aab-", codec)
        produce(node, "ba", codec)
        ann, bob = Member(node), Member(node, "bob")
        assert await ann.acquire() == [(0, 0, 1), (2, 3, 1)]
        assert acquired(await bob.fetch(max_wait_ms=0)) == []
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE
        assert await bob.acquire() == [(1, 1, 1)]
        assert await ann.acknowledge((2, 2, [RELEASE])) == ErrorCode.NONE
        assert acquired(await bob.fetch((1, 1, [ACCEPT]))) in ([(2, 2, 2)], [(5, 5, 1)], [(2, 2, 2), (5, 5, 1)])


async def test_the_next_leader_has_the_same_order(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST, BY_KEY)
        produce(node, "abab")
        ann = Member(node)
        assert await ann.acquire() == [(0, 1, 1)]
        assert await ann.acknowledge((1, 1, [ACCEPT])) == ErrorCode.NONE
        assert await ann.acquire() == [(3, 3, 1)]
        node.commit(change(leader=8, epoch=4))
        node.commit(change(leader=1, epoch=5))
        ann.epoch = 0
        assert await ann.acquire() == [(0, 0, 1), (3, 3, 1)]


async def test_who_waits_hears_of_what_comes(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST, BY_KEY)
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        await until(lambda: all(it.machine.status.value == "active" for it in node.broker.sharing._led.values()))
        produce(node, "aa")
        assert await ann.acquire() == [(0, 0, 1)]


async def test_a_group_gets_its_order_while_it_reads(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        produce(node, "aa")
        ann = Member(node)
        assert await ann.acquire() == [(0, 1, 1)]
        node.commit(BY_KEY)
        assert await ann.acquire() == [(0, 0, 1)], "what nobody had said anything of is given out anew"


def test_only_so_many_keys_are_told_at_a_time() -> None:
    begin = 3
    data = batch_of("a" * MOST_KEYS + "bbbbb")
    parts = keys_of(data, begin, None)
    assert [offset for part in parts for offset in part.keys] == list(range(begin, begin + MOST_KEYS))
    assert [part.first for part in parts] == list(range(begin, begin + MOST_KEYS, OF_ONE)), "a turn takes a few"
    (read,) = keys_of(batch_of("a-a"), 0, None)
    assert read.keys == {0: hash(b"a"), 1: None, 2: hash(b"a")}


def test_a_batch_that_cannot_be_read_has_one_key() -> None:
    data = bytearray(batch_of("abc", Compression.ZSTD))
    data[-6:] = b"\0" * 6
    (read,) = keys_of(bytes(data), 0, None)
    assert read.keys == {0: 0, 1: 0, 2: 0}


async def test_a_log_that_cannot_be_read_ahead_is_an_error_of_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST, BY_KEY)
        produce(node, "ab")
        ann = Member(node)
        assert await ann.acquire() == [(0, 1, 1)]
        assert await ann.acknowledge((0, 0, [RELEASE])) == ErrorCode.NONE
        looks = iter([None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])

        def read_ahead(_: OrderedShared) -> None:
            if (error := next(looks, None)) is not None:
                raise error

        monkeypatch.setattr(OrderedShared, "_read_ahead", read_ahead)
        data = await ann.fetch(max_wait_ms=0)
        assert data is not None
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_an_aborted_transaction_holds_back_does_not_end_it() -> None:
    held = BatchHeader(0, 100, 0, 2, 0, CONTROL | DELAYED | TRANSACTIONAL, 1, 0, 0, 7, 0, 0, 1)
    data = held._replace(base_offset=2, attributes=TRANSACTIONAL)
    marker = held._replace(base_offset=4, attributes=CONTROL | TRANSACTIONAL, last_offset_delta=0)
    behind = data._replace(base_offset=5)
    aborts = Aborts([(7, 0)])
    assert [aborts.has(header) for header in (held, data, marker, behind)] == [True, True, False, False]
