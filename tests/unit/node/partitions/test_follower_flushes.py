"""What `flush.messages` wants on disk is there before a follower tells its leader that it has it."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.followed import KEY, Followed
from tests.unit.node.held_threads import HeldThreads
from tests.unit.node.on_disk import TOPIC_ID, batch

from penstock.node.partitions import replica_fetcher
from penstock.protocol.requests.fetch import FetchPartitionResult

FLUSHES_EACH = {"log.flush.interval.messages": "1"}


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_the_next_request_waits_until_what_came_is_flushed(tmp_path: Path) -> None:
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    await followed.asked(1)
    assert await followed.take(batch(b"a")) == 1
    await turns()
    assert len(followed.leader.asked) == 1, "the leader would take it for kept"
    threads.do()
    await followed.asked(2)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()


async def test_a_request_goes_without_a_partition_whose_disk_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_fetcher, "FLUSH_PATIENCE_S", 0.0)
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    await followed.asked(1)
    rows = [FetchPartitionResult(index, records=batch(b"a") if not index else b"") for index in range(2)]
    followed.answer(rows)
    await followed.asked(2)
    (forgotten,) = followed.leader.asked[-1].forgotten_topics
    assert KEY not in followed.leader.last_asked()
    assert (forgotten.topic_id, forgotten.partitions) == (TOPIC_ID, [0])
    threads.do()
    await turns()
    followed.answer([])
    await followed.asked(3)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()


async def test_a_connection_that_is_lost_while_flushes_are_waited_for_is_opened_anew(tmp_path: Path) -> None:
    followed = Followed(tmp_path, FLUSHES_EACH)
    threads = HeldThreads.of(followed.node)
    await followed.asked(1)
    await followed.take(batch(b"a"))
    await turns()
    followed.leader.abort("gone")
    followed.leader.closed = False
    threads.do()
    await followed.asked(2)
    assert followed.leader.last_asked() == {KEY: 1}
    await followed.fetcher.stop()
