"""What the leader of a storage group does while it gives the lead away, by what it sees of its group and its driver."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.leadership.transfer import Cause, Limits, State
from penstock.node.environment.event_loop import loop_ms
from penstock.node.links.hand_over import Outcome
from penstock.node.storage_groups.hand_over import CHECK_MS, StorageGroupHandOver, limits_of
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import Scheme

ME, OTHER, THIRD, STRANGER = 1, 2, 3, 4
EPOCH, END, LEASE_MS = 5, 10, 1_000


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=100 + node_id))


class Group:
    """As much of a group and its driver as a hand-over looks at. Node 1 leads, with the voters 2 and 3."""

    def __init__(self) -> None:
        settings = SimpleNamespace(handover_scheme=Scheme.ENDED)
        self.proposer = SimpleNamespace(epoch=EPOCH, settings=settings)
        self.can_be_read = True
        self.hand_over: Any = None
        self.ends = {ME: END, OTHER: END, THIRD: END}
        self.raft = SimpleNamespace(
            replica=SimpleNamespace(settings=SimpleNamespace(lease_ms=LEASE_MS)), lease_until_ms=7_000
        )
        self.local_key, self.log_end_offset = key(ME), END
        self.quorum = Quorum.of([Voter(key(it)) for it in self.ends])
        self.asked: list[tuple[int, asyncio.Future[int]]] = []
        self.taken_back: list[int] = []
        self.describes = self.takes_entries = True

    @property
    def driver(self) -> "Group":
        return self

    def describe(self) -> QuorumDescription:
        if not self.describes:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        rows = tuple(ReplicaDescription(key(it), end, 0, 0) for it, end in self.ends.items())
        return QuorumDescription(ME, EPOCH, END, rows, (), self.quorum)

    def propose_successor(self, successor: int) -> asyncio.Future[int]:
        if not self.takes_entries:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.asked.append((successor, done))
        return done

    def take_back(self, epoch: int) -> None:
        self.taken_back.append(epoch)


class Way:
    """To the successor, which takes what is sent."""

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.hung_up = False

    def prepare(self) -> None: ...

    async def reach(self) -> None: ...

    async def send(self, held: object) -> Outcome:
        self.sent.append(held)
        return Outcome(True, lambda: None)

    def hang_up(self) -> None:
        self.hung_up = True

    async def close(self) -> None: ...


class Arrived:
    """A request."""

    size = 1

    def __init__(self) -> None:
        self.fate = ""
        self.code: ErrorCode | None = None

    def append(self) -> None:
        self.fate = "appended here"

    def refused(self, error: KafkaError) -> None:
        self.fate, self.code = "refused", error.code


class Giving:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.group, self.way, self.now_ms = Group(), Way(), loop_ms(asyncio.get_running_loop())
        monkeypatch.setattr(StorageGroupHandOver, "_now_ms", lambda _: self.now_ms)

    def begin(self, successor: int = OTHER) -> StorageGroupHandOver:
        return StorageGroupHandOver(cast("Any", self.group), successor, self.way)

    def look(self, after_ms: int = CHECK_MS) -> None:
        """So much later its alarm rings."""
        self.now_ms += after_ms
        self.group.hand_over._ring()


@pytest.fixture
async def giving(monkeypatch: pytest.MonkeyPatch) -> Giving:
    return Giving(monkeypatch)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("scheme", "stand_ms", "hold_ms", "silent_ms"),
    [
        (Scheme.RUNS_OUT, 1_500, 3_500, 5_500),
        (Scheme.MOVED, 600, 1_700, 3_700),
        (Scheme.ENDED, 500, 1_500, 3_500),
    ],
)
def test_how_long_each_scheme_waits(scheme: Scheme, stand_ms: int, hold_ms: int, silent_ms: int) -> None:
    assert limits_of(scheme, LEASE_MS) == Limits(hold_ms=hold_ms, stand_ms=stand_ms, silent_ms=silent_ms)


async def test_the_voters_are_asked_when_the_successor_has_everything(giving: Giving) -> None:
    giving.group.ends[OTHER] = END - 1
    hand_over = giving.begin()
    assert giving.group.hand_over is hand_over
    assert (hand_over.machine.state, hand_over.machine.leader_epoch) == (State.CATCHING_UP, EPOCH)
    giving.look()
    assert not giving.group.asked
    giving.group.describes = False
    giving.group.ends[OTHER] = END
    giving.look()
    assert not giving.group.asked, "it leads no longer"
    giving.group.describes = True
    giving.look()
    assert [successor for successor, _ in giving.group.asked] == [OTHER]
    assert hand_over.machine.state is State.ASKED
    assert not hand_over.is_decided.is_set()


async def test_a_successor_that_has_everything_is_named_at_once(giving: Giving) -> None:
    giving.begin(THIRD)
    assert [successor for successor, _ in giving.group.asked] == [THIRD]


async def test_it_looks_every_few_milliseconds_until_the_successor_leads(giving: Giving) -> None:
    giving.group.ends[OTHER] = 0
    hand_over = giving.begin()
    for state in (State.CATCHING_UP, State.ASKED):
        assert hand_over.machine.state == state
        assert hand_over._alarm._due_ms == giving.now_ms + CHECK_MS
        hand_over._alarm.cancel()
        giving.group.ends[OTHER] = END
        giving.look()
    hand_over.on_leader(OTHER, EPOCH + 1)
    hand_over._alarm.cancel()
    hand_over._set_alarm()
    assert hand_over._alarm._due_ms == hand_over.machine.deadline_ms != giving.now_ms + CHECK_MS


async def test_a_successor_that_does_not_catch_up_gets_nothing(giving: Giving) -> None:
    giving.group.ends[OTHER] = 0
    hand_over = giving.begin()
    giving.look(Limits().catch_up_ms)
    assert (hand_over.machine.cause, giving.group.hand_over) == (Cause.LAGS, None)
    assert hand_over.is_decided.is_set()


ENDS: dict[str, tuple[Callable[[asyncio.Future[int]], object], State]] = {
    "a majority has agreed": (lambda done: done.set_result(END), State.DECIDED),
    "the lead is lost": (lambda done: done.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)), State.ASKED),
    "the driver has ended": (lambda done: done.cancel(), State.ASKED),
}


@pytest.mark.parametrize("how", ENDS)
async def test_what_becomes_of_the_entry_that_names_the_successor(
    giving: Giving, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    end, state = ENDS[how]
    hand_over = giving.begin()
    end(giving.group.asked[0][1])
    await settle()
    assert hand_over.machine.state is state
    assert hand_over.takes
    assert [row.message for row in caplog.records if row.name == "asyncio"] == []


async def test_an_entry_that_cannot_be_proposed_is_as_one_that_is_lost(giving: Giving) -> None:
    giving.group.takes_entries = False
    hand_over = giving.begin()
    giving.look()
    assert hand_over.machine.state is State.ASKED
    assert len(giving.group.asked) == 0
    hand_over.on_leader(ME, EPOCH + 1)
    assert hand_over.machine.cause is Cause.CHANGED


async def test_what_arrives_goes_to_the_successor_when_it_leads(giving: Giving) -> None:
    hand_over, one = giving.begin(), Arrived()
    hand_over.hold(one)
    giving.group.asked[0][1].set_result(END)
    await settle()
    hand_over.on_leader(None, EPOCH + 1)
    assert hand_over.machine.state is State.DECIDED, "for a moment there is no leader"
    assert not hand_over.is_decided.is_set()
    hand_over.on_leader(OTHER, EPOCH + 1)
    assert hand_over.is_decided.is_set()
    await settle()
    assert giving.way.sent == [one]
    assert (giving.group.hand_over, hand_over.machine.state) == (hand_over, State.FORWARDING)
    hand_over.on_leader(None, EPOCH + 2)
    assert (giving.group.hand_over, hand_over.machine.state) == (None, State.OVER)
    assert giving.way.hung_up


@pytest.mark.parametrize(
    ("leader_id", "epoch", "fate"), [(THIRD, EPOCH + 1, "refused"), (ME, EPOCH + 1, "appended here"), (ME, EPOCH, "")]
)
async def test_what_arrives_where_another_one_leads(giving: Giving, leader_id: int, epoch: int, fate: str) -> None:
    hand_over, one = giving.begin(), Arrived()
    giving.group.asked[0][1].set_result(END)
    await settle()
    hand_over.hold(one)
    hand_over.on_leader(leader_id, epoch)
    assert one.fate == fate
    assert (giving.group.hand_over is None) is bool(fate)


async def test_a_group_without_a_leader_gives_nothing_away(giving: Giving) -> None:
    """Before the voters were asked, none is about to be named."""
    giving.group.ends[OTHER] = 0
    hand_over, one = giving.begin(), Arrived()
    hand_over.hold(one)
    hand_over.on_leader(None, EPOCH + 1)
    assert (hand_over.machine.cause, one.fate) == (Cause.CHANGED, "refused")
    assert giving.group.hand_over is None


async def test_this_node_stands_again_where_the_successor_does_not(giving: Giving) -> None:
    hand_over, one = giving.begin(), Arrived()
    hand_over.hold(one)
    giving.group.asked[0][1].set_result(END)
    await settle()
    giving.look(499)
    assert giving.group.taken_back == []
    giving.look(1)
    assert giving.group.taken_back == [EPOCH]
    assert hand_over.is_decided.is_set()
    giving.look(999)
    assert (hand_over.takes, one.fate) == (True, "")
    giving.look(1)
    assert (hand_over.takes, one.fate, one.code) == (False, "refused", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    giving.look(2_000)
    assert (hand_over.machine.cause, giving.group.hand_over) == (Cause.UNKNOWN, None)


async def test_a_lease_that_was_asked_for_after_the_voters_tells_that_it_leads_on(giving: Giving) -> None:
    """One that was asked for before may reach up to a lease further than the one it had then."""
    hand_over, one, raft = giving.begin(), Arrived(), giving.group.raft
    hand_over.hold(one)
    for until_ms in (7_000, 7_000 + LEASE_MS, 7_001 + LEASE_MS, 7_001 + LEASE_MS):
        raft.lease_until_ms = until_ms
        giving.look()
        assert giving.group.hand_over is hand_over
    raft.lease_until_ms += 1
    giving.look()
    assert (hand_over.machine.cause, one.fate, giving.group.hand_over) == (Cause.RENEWED, "appended here", None)


async def test_leases_count_only_after_the_voters_were_asked(giving: Giving) -> None:
    giving.group.ends[OTHER] = 0
    hand_over = giving.begin()
    for until_ms in (9_000, 9_001, 9_002):
        giving.group.raft.lease_until_ms = until_ms
        giving.look()
    assert not giving.group.asked
    giving.group.ends[OTHER] = END
    giving.look()
    giving.group.raft.lease_until_ms = 9_002 + LEASE_MS
    giving.look()
    assert hand_over.machine.state is State.ASKED


async def test_a_later_hand_over_of_the_group_is_left_as_it_is(giving: Giving) -> None:
    first = giving.begin()
    giving.group.asked[0][1].set_result(END)
    await settle()
    first.on_leader(OTHER, EPOCH + 1)
    giving.group.hand_over = later = object()
    first.on_leader(None, EPOCH + 2)
    assert giving.group.hand_over is later


async def test_clients_are_told_to_look_when_all_is_settled(giving: Giving) -> None:
    hand_over = giving.begin()
    await hand_over.settle()
    assert hand_over.machine.state is State.ASKED, "the successor does not lead yet"
    giving.group.asked[0][1].set_result(END)
    await settle()
    hand_over.on_leader(OTHER, EPOCH + 1)
    await hand_over.settle()
    assert (hand_over.machine.cause, giving.group.hand_over) == (Cause.DONE, None)


WHY_NOT: dict[str, tuple[Callable[[Group], object], int, ErrorCode | None]] = {
    "it can": (lambda group: None, OTHER, None),
    "leads not": (lambda group: setattr(group.proposer, "epoch", None), OTHER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "no lease": (lambda group: setattr(group, "can_be_read", False), OTHER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "another is under way": (
        lambda group: setattr(group, "hand_over", SimpleNamespace(takes=True)), OTHER, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
    "another is nearly over": (lambda group: setattr(group, "hand_over", SimpleNamespace(takes=False)), OTHER, None),
    "to itself": (lambda group: None, ME, ErrorCode.INVALID_REQUEST),
    "no voter": (lambda group: None, STRANGER, ErrorCode.INVALID_REQUEST),
}  # fmt: skip


@pytest.mark.parametrize("why", WHY_NOT)
async def test_who_can_give_the_lead_to_whom(giving: Giving, why: str) -> None:
    change, successor, code = WHY_NOT[why]
    change(giving.group)
    before = giving.group.hand_over
    if code is None:
        giving.begin(successor)
        assert giving.group.hand_over is not before
        return
    with pytest.raises(KafkaError) as refused:
        giving.begin(successor)
    assert refused.value.code == code
    assert giving.group.hand_over is before
