"""What a follower does where its leader refuses all that it asked, its own log cannot go on, or both logs part."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.node.followed import ADDRESS, KEY, LEADER, Followed, Leader
from tests.unit.node.on_disk import batch

from penstock.client.connection import KnownNode
from penstock.client.errors import ClusterUnreachableError, RequestTimedOutError, UnsupportedByBrokerError
from penstock.log.log_content import LogContent
from penstock.node.partitions import cuts as cuts_module
from penstock.node.partitions import replica_fetcher as module
from penstock.node.partitions.cuts import Cuts
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.leader_offsets import LATEST
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import FetchPartitionResult, encode_fetch_response


def refuse(*_: object, **__: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


def fail(*_: object, **__: object) -> None:
    raise ValueError("a defect")


def refuse_all(followed: Followed, code: ErrorCode) -> None:
    (response,) = encode_fetch_response([], 17, 5, error_code=code, session_id=7)
    assert isinstance(response, bytes)
    assert followed.leader.taker is not None
    followed.leader.taker.take(memoryview(response)[4:])


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("code", module.NEW_SESSION)
async def test_a_leader_that_has_lost_the_session_is_asked_anew_at_once(followed: Followed, code: ErrorCode) -> None:
    await followed.take(batch(b"a"))
    refuse_all(followed, code)
    await followed.asked(3)
    asked = followed.leader.asked[-1]
    assert (asked.session_id, asked.session_epoch) == (7, 0)
    assert followed.leader.last_asked() == {KEY: 1}
    assert (followed.fetcher._failures, followed.leader.closed) == (0, False)


async def test_a_leader_that_refuses_everything_is_left_for_a_while(followed: Followed) -> None:
    refuse_all(followed, ErrorCode.UNKNOWN_SERVER_ERROR)
    await settle()
    assert (followed.fetcher._failures, followed.leader.closed, len(followed.leader.asked)) == (1, True, 1)


async def test_an_answer_ends_what_failed_before(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for failures in (2, 0):
        followed.fetcher._failures = failures
        await followed.take()
        assert followed.fetcher._failures == 0
    assert len([text for text in caplog.messages if text.endswith("answers again")]) == 1


async def test_a_defect_is_as_a_leader_that_fails(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.ReplicaFetcher, "_take_partition", fail)
    await followed.take()
    await settle()
    assert (followed.fetcher._failures, followed.leader.closed) == (1, True)


@pytest.mark.parametrize("does", [refuse, fail])
async def test_a_partition_that_takes_nothing_rests(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, does: Any
) -> None:
    monkeypatch.setattr(IsrPartition, "append_fetched", does)
    assert await followed.take(batch(b"a")) == 0
    assert list(followed.fetcher._resting) == [KEY]
    assert len(followed.fetcher._session) == 0


async def test_a_partition_whose_end_cannot_be_read_rests(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IsrPartition, "when_kept", refuse)
    followed.fetcher.follow(followed.partition)
    assert list(followed.fetcher._resting) == [KEY]
    assert len(followed.fetcher._session) == 0


@pytest.mark.parametrize("is_followed", [True, False])
async def test_a_partition_that_cannot_be_cut_rests_as_long_as_it_is_followed(
    followed: Followed, is_followed: bool
) -> None:
    if not is_followed:
        followed.fetcher.leave(followed.partition)
    followed.fetcher._cuts._failed(followed.partition)
    assert list(followed.fetcher._resting) == ([KEY] if is_followed else [])


async def test_a_log_is_cut_where_it_parts_from_its_leader(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[object, ...]] = []
    monkeypatch.setattr(Cuts, "where_it_parts", lambda _, *given: parts.append(given))
    followed.answer([FetchPartitionResult(0, diverging_epoch=(3, 1))])
    assert parts == [(followed.partition, 3, 1)]


@pytest.mark.parametrize(
    ("latest", "earliest", "cut"),
    [
        (0, 0, ("to_the_leaders_end", 0)),
        (1, 0, None),
        (9, 1, None),
        (9, 2, ("anew", 2)),
        (0, 9, ("to_the_leaders_end", 0)),
    ],
)
async def test_what_is_not_there_lies_behind_the_leaders_log_or_before_it(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, latest: int, earliest: int, cut: tuple[str, int] | None
) -> None:
    """This log ends at 1."""

    async def leader_offset(_: object, node_id: int, partition: object, which: int) -> int:
        assert partition is followed.partition
        return latest if which == LATEST else earliest

    cuts: list[tuple[object, ...]] = []
    for name in ("to_the_leaders_end", "anew"):
        monkeypatch.setattr(Cuts, name, lambda _, *given, name=name: cuts.append((name, *given)))
    monkeypatch.setattr(module, "leader_offset", leader_offset)
    await followed.take(batch(b"a"))
    await followed.take(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    await followed.asked(3)
    assert cuts == ([] if cut is None else [(cut[0], followed.partition, cut[1])])


async def test_cuts_are_made_on_the_disk(followed: Followed) -> None:
    await followed.take(batch(b"a", b"b"), high_watermark=0)
    failed: list[IsrPartition] = []
    cuts = Cuts(followed.node.directories, failed.append)
    cuts.to_the_leaders_end(followed.partition, 0)
    await cuts.settle()
    await settle()
    assert followed.partition.log.log_end_offset == 0
    cuts.anew(followed.partition, 7)
    await cuts.settle()
    await settle()
    assert (followed.partition.log.log_start_offset, followed.partition.log.log_end_offset) == (7, 7)
    assert failed == []


async def test_who_cannot_be_cut_is_told_of(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    partition, failed = followed.partition, list[IsrPartition]()
    await followed.take(batch(b"a", b"b"), high_watermark=0)
    monkeypatch.setattr(LogContent, "cut_to", refuse)
    monkeypatch.setattr(LogContent, "start_anew_at", refuse)
    cuts = Cuts(followed.node.directories, failed.append)
    for begin in (partial(cuts.where_it_parts, leader_epoch=-1, leader_end_offset=0), partial(cuts.anew, offset=7)):
        begin(partition)
        assert len(cuts._under_way) == 1
        while cuts._under_way:
            await asyncio.sleep(0)
    assert failed == [partition] * 2


@pytest.mark.parametrize(
    ("code", "is_told"), [(ErrorCode.KAFKA_STORAGE_ERROR, True), (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)]
)
async def test_a_refusal_that_does_not_pass_by_itself_is_told(
    followed: Followed, caplog: pytest.LogCaptureFixture, code: ErrorCode, is_told: bool
) -> None:
    await followed.take(error=code)
    assert any(text.endswith(f"says {code.name}") for text in caplog.messages) is is_told


@pytest.mark.parametrize("meanwhile", ["nothing", "a new epoch", "left"])
async def test_an_offset_that_is_not_there_is_looked_into_if_it_is_followed_in_the_same_epoch(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    looked: list[int] = []

    async def leader_offset(*_: object) -> int:
        looked.append(1)
        return 0

    monkeypatch.setattr(module, "leader_offset", leader_offset)
    await followed.take(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    if meanwhile == "a new epoch":
        followed.obey(5)
    elif meanwhile == "left":
        followed.fetcher.leave(followed.partition)
    await settle()
    assert bool(looked) is (meanwhile == "nothing")


async def test_the_next_request_waits_for_a_flush_and_goes_out_with_its_end(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[Callable[[], None]]()

    def when_kept(_: IsrPartition, go_on: Callable[[], None]) -> bool:
        flushed.append(go_on)
        return len(flushed) < 2

    monkeypatch.setattr(IsrPartition, "when_kept", when_kept)
    monkeypatch.setattr(module, "FLUSH_PATIENCE_S", 3_600)
    await followed.take(batch(b"a"))
    await settle()
    assert (len(followed.leader.asked), list(followed.fetcher._unkept)) == (1, [KEY])
    flushed[0]()
    assert followed.leader.last_asked() == {KEY: 1}
    assert (followed.fetcher._patience, len(followed.leader.asked)) == (None, 2)


async def test_a_connection_that_is_closed_while_a_flush_is_waited_for_is_asked_nothing(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = list[Callable[[], None]]()

    def when_kept(_: IsrPartition, go_on: Callable[[], None]) -> bool:
        flushed.append(go_on)
        return len(flushed) < 2

    monkeypatch.setattr(IsrPartition, "when_kept", when_kept)
    await followed.take(batch(b"a"))
    before, followed.leader = followed.leader, Leader()
    before.closed = True
    flushed[0]()
    await followed.asked(1)
    assert (len(before.asked), followed.leader.last_asked()) == (1, {KEY: 1})


async def test_a_flush_that_takes_long_is_no_longer_waited_for(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = followed.node.partition(index=1)
    followed.obey(4, other)
    followed.fetcher.follow(other)
    await followed.take()
    monkeypatch.setattr(IsrPartition, "when_kept", lambda one, _: one is followed.partition)
    monkeypatch.setattr(module, "FLUSH_PATIENCE_S", 0)
    records = bytes(batch(b"a"))
    followed.answer([FetchPartitionResult(index, high_watermark=1, records=records) for index in (0, 1)])
    await followed.asked(3)
    assert [key[1] for key in followed.leader.last_asked()] == [1]
    assert followed.fetcher._unkept == {}


async def test_each_answer_that_passes_makes_it_rest_for_twice_as_long(followed: Followed) -> None:
    pauses_ms = [followed.fetcher._passing_ms(KEY) for _ in range(9)]
    assert pauses_ms == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]


async def test_a_log_that_is_lent_is_asked_about_when_it_is_back(followed: Followed) -> None:
    await followed.take(batch(b"a"))
    log = followed.partition.log
    log.lend()
    followed.fetcher._want(KEY, followed.partition)
    assert len(followed.fetcher._session) == 0, "where it ends is not known"
    for go_on in log.take_back(is_whole=True):
        go_on()
    assert len(followed.fetcher._session) == 1


async def test_it_connects_to_the_leader_that_is_known(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Any] = []

    async def connect(address: object, **known: object) -> Any:
        places.append((address, known))
        return Leader()

    monkeypatch.setattr(module, "connect", connect)
    fetcher = module.ReplicaFetcher(LEADER, followed.fetcher._follower)
    fetcher.follow(followed.partition)
    await settle()
    settings = followed.fetcher._follower.settings
    assert places == [(ADDRESS, {"settings": settings, "node": KnownNode("cluster", LEADER)})]
    await fetcher.stop()


async def test_a_leader_whose_place_nobody_knows_is_asked_later(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(s: float) -> None:
        slept.append(s)

    fetcher = followed.fetcher
    follower: Any = SimpleNamespace(address_of=lambda leader: None, settings=SimpleNamespace(backoff_ms=lambda n: 250))
    monkeypatch.setattr(fetcher, "_follower", follower)
    with pytest.raises(ClusterUnreachableError):
        await fetcher._connected()
    fetcher._out_of_range.append((KEY, followed.partition, 4))
    with monkeypatch.context() as patched:
        patched.setattr(module, "asyncio", stand_in(asyncio, sleep=sleep))
        await fetcher._failed(ClusterUnreachableError("gone"))
    assert (slept, fetcher._out_of_range, fetcher._failures) == ([0.25], [], 1)


@pytest.mark.parametrize(
    ("ends", "left_s", "error"),
    [((True,), [], None), ((False, True), [0.3], None), ((False, False), [0.3], RequestTimedOutError)],
)
async def test_an_answer_is_waited_for_from_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[bool, ...], left_s: list[float], error: type[Exception] | None
) -> None:
    """At 10 s, for 500 ms, of which 200 are over."""
    times, done, waited = iter((10.2, 10.5)), iter(ends), list[float]()
    over: Any = SimpleNamespace(done=lambda: next(done), result=lambda: None)

    async def wait(_: object, timeout: float) -> None:
        waited.append(round(timeout, 9))

    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, wait=wait))
    one: Any = SimpleNamespace(_asked_s=10.0, _loop=SimpleNamespace(time=lambda: next(times)))
    one._follower = SimpleNamespace(config=SimpleNamespace(replica_socket_timeout_ms=500))
    connection: Any = SimpleNamespace(address=ADDRESS)
    with pytest.raises(error) if error else nullcontext():
        await module.ReplicaFetcher._answered(one, connection, over)
    assert waited == left_s


async def test_a_row_of_requests_ends_once(followed: Followed) -> None:
    over = followed.fetcher._over
    assert over is not None
    followed.fetcher._end()
    followed.fetcher._end(ValueError("late"))
    assert over.result() is None
    followed.fetcher._over = None
    followed.fetcher._end()


@pytest.mark.parametrize(("version", "is_known"), [(12, False), (13, True), (14, True)])
def test_topics_are_followed_by_their_ids(version: int, is_known: bool) -> None:
    connection: Any = SimpleNamespace(address=ADDRESS, version_for=lambda _: version)
    with nullcontext() if is_known else pytest.raises(UnsupportedByBrokerError):
        assert module._version(connection) == version


async def test_each_cut_goes_to_the_threads_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the checkpoint of its directory. And who has stopped hears of none that fails."""
    cuts_made, failed, futures = list[Any](), list[Any](), list[asyncio.Future[None]]()

    def begun(name: str) -> Callable[..., asyncio.Future[None]]:
        def begin(offset: int, threads: object, checkpoint: Callable[[], object]) -> asyncio.Future[None]:
            cuts_made.append((name, offset, threads, checkpoint()))
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        return begin

    log = SimpleNamespace(log_end_offset=9, end_offset_for_epoch="ends", parent="/a")
    one: Any = SimpleNamespace(log=log, high_watermark=4, cut_to=begun("cut"), begin_anew_at=begun("anew"))
    asked: list[Any] = []

    def truncation_offset(*given: object, **named: object) -> int:
        asked.append((given, named))
        return 6

    monkeypatch.setattr(cuts_module, "truncation_offset", truncation_offset)
    checkpoints = SimpleNamespace(write_cleaned_offsets=lambda *given: given)
    disks: Any = SimpleNamespace(
        threads_of=lambda _: "threads", checkpoints=checkpoints, logs="logs", roots={"/a": "its"}
    )
    cuts = Cuts(disks, failed.append)
    cuts.where_it_parts(one, 3, 7)
    cuts.to_the_leaders_end(one, 5)
    cuts.anew(one, 20)
    means = "threads", ("logs", "its")
    assert cuts_made == [("cut", 6, *means), ("cut", 5, *means), ("anew", 20, *means)]
    assert asked == [((3, 7), {"own_end_for": "ends", "log_end_offset": 9, "high_watermark": 4})]
    futures[0].set_result(None)
    futures[1].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    await settle()
    assert (failed, list(cuts._under_way)) == ([one], futures[2:])
    settling = asyncio.ensure_future(cuts.settle())
    await settle()
    assert not settling.done()
    futures[2].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    await settling
    cuts.anew(one, 20)
    futures[3].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    await settle()
    assert failed == [one, one]
