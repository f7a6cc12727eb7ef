"""When a partition of a fetch session need not be looked at: everything that must be so for it, one by one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.logs import open_log
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID, batch

from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.fetch_sessions import LOOK_AT_ALL_S, FetchSessions, Session, StandingWait, Wanted
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.requests.fetch import FetchPartition

OTHER, CONSUMER = NODE_ID + 1, -1


class Quiet:
    """A partition with one record that is committed; a client has read and heard all of it."""

    def __init__(self, path: Path) -> None:
        self.partition = IsrPartition(open_log(path), TOPIC_ID)
        self.obey(1, NODE_ID, (NODE_ID, OTHER))
        self.append()
        self.partition.on_fetched(OTHER, 1, 9, 0)
        self.wanted = self.asking(1)

    def asking(self, offset: int) -> Wanted:
        wanted = Wanted((TOPIC_ID, 0), FetchPartition(index=0, fetch_offset=offset))
        wanted.partition, wanted.role = self.partition, self.partition.role
        wanted.told_high_watermark, wanted.told_log_start_offset = self.partition.high_watermark, 0
        return wanted

    def obey(self, epoch: int, leader: int, isr: tuple[int, ...]) -> None:
        self.partition.obey(NODE_ID, PartitionImage(leader, epoch, epoch, (NODE_ID, OTHER), isr), 0)

    def append(self) -> None:
        self.partition.append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=NOW_MS)


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Quiet]:
    found = Quiet(tmp_path)
    yield found
    found.partition.log.abandon()


def test_one_that_is_read_and_heard_of_is_quiet_for_consumers_and_who_is_in_sync(quiet: Quiet) -> None:
    assert quiet.wanted.is_quiet(CONSUMER)
    assert quiet.wanted.is_quiet(OTHER)
    assert not quiet.wanted.is_quiet(0), "no replica of it"
    assert not quiet.wanted.is_quiet(OTHER + 1)


def unknown(quiet: Quiet) -> None:
    quiet.wanted.partition = None


def to_be_checked(quiet: Quiet) -> None:
    quiet.wanted.role = None


def in_another_role(quiet: Quiet) -> None:
    quiet.obey(2, OTHER, (NODE_ID, OTHER))


def in_another_term(quiet: Quiet) -> None:
    quiet.obey(2, NODE_ID, (NODE_ID, OTHER))


def with_more(quiet: Quiet) -> None:
    quiet.append()
    quiet.partition.on_fetched(OTHER, 2, 9, 0)


def not_told(quiet: Quiet) -> None:
    quiet.wanted.told_high_watermark = 0


def not_read(quiet: Quiet) -> None:
    quiet.wanted.request = quiet.asking(0).request


def read_further(quiet: Quiet) -> None:
    quiet.wanted.request = quiet.asking(2).request


def begins_later(quiet: Quiet) -> None:
    quiet.partition.log.advance_log_start(1)


def failed(quiet: Quiet) -> None:
    quiet.partition.log.abandon()
    quiet.partition.log._unread.distrust()


@pytest.mark.parametrize(
    "change",
    [
        unknown,
        to_be_checked,
        in_another_role,
        in_another_term,
        with_more,
        not_told,
        not_read,
        read_further,
        begins_later,
        failed,
    ],
)
@pytest.mark.parametrize("replica", [CONSUMER, OTHER])
def test_whatever_is_otherwise_has_it_looked_at(quiet: Quiet, replica: int, change: Callable[[Quiet], None]) -> None:
    change(quiet)
    assert not quiet.wanted.is_quiet(replica)


def test_a_follower_has_what_is_not_committed_to_fetch_and_may_have_to_come_in(quiet: Quiet) -> None:
    quiet.append()
    assert (quiet.wanted.is_quiet(CONSUMER), quiet.wanted.is_quiet(OTHER)) == (True, False)
    quiet.obey(1, NODE_ID, (NODE_ID,))
    quiet.partition.leader = quiet.partition.role  # type: ignore[assignment]  # the same term
    assert not quiet.wanted.is_quiet(OTHER)


def session(**more: object) -> Session:
    wanted = {(TOPIC_ID, index): asked(index) for index in range(3)}
    return Session(7, True, dict(wanted), False, 0, 0, **more)  # type: ignore[arg-type]


def asked(index: int) -> Wanted:
    return Wanted((TOPIC_ID, index), FetchPartition(index=index))


def standing_of(wanted: Wanted) -> StandingWait | None:
    return wanted.standing


def marked(one: Session) -> list[int]:
    return [wanted.request.index for wanted in one.marked]


def test_all_are_looked_at_now_and_then_and_else_those_that_are_marked() -> None:
    one = session()
    assert not one.keeps_marks
    one.ask((TOPIC_ID, 3), asked(3).request)
    assert marked(one) == [], "it keeps no marks yet"
    assert len(one.to_look_at(100.0)) == 4
    assert one.keeps_marks
    one.marked.clear()
    assert one.to_look_at(100.0 + LOOK_AT_ALL_S - 0.01) == []
    one.ask((TOPIC_ID, 1), asked(1).request)
    one.ask((TOPIC_ID, 5), asked(5).request)
    assert marked(one) == [1, 5]
    one.to_the_back([(TOPIC_ID, 1), (TOPIC_ID, 9)])
    assert marked(one) == [5, 1]
    assert [index for _, index in one.wanted] == [0, 2, 3, 5, 1]
    one.to_the_back([(TOPIC_ID, 0)])
    assert marked(one) == [5, 1], "one that is not marked stays so"
    gone = one.wanted[TOPIC_ID, 5]
    one.forget((TOPIC_ID, 5))
    one.forget((TOPIC_ID, 5))
    assert (marked(one), gone.is_asked) == ([1], False)
    assert len(one.to_look_at(100.0 + LOOK_AT_ALL_S)) == 4


def test_a_standing_wait_marks_its_partition_once_and_wakes_the_poll(quiet: Quiet) -> None:
    one, woken = session(), list[int]()
    one.woken = lambda: woken.append(1)
    wanted = one.wanted[TOPIC_ID, 1]
    waits = quiet.partition.committed.waits
    wanted.standing = StandingWait(one, wanted, waits, 2)
    with_more(quiet)
    assert (marked(one), woken) == ([1], [1])
    assert standing_of(wanted) is None
    wanted.standing = StandingWait(one, wanted, waits, 3)
    one.forget((TOPIC_ID, 1))
    assert standing_of(wanted) is None
    assert len(waits) == 0
    assert one.rank == (False, 2)
    assert not FetchSessions(1, Random(1)).ended
