"""What is told of groups: within limits, once, as far as it is committed, and by whichever coordinator."""

import random
from typing import Any

from tests.unit.coordinator.group.consumer.bench import GROUP, SESSION_MS, Bench

from penstock.coordinator.effects import Append, Effect, Note
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.epoch_story import _UnderWay
from penstock.coordinator.group.group_log import MOST_BYTES, NAMED, GroupLog, encoded, put_moves
from penstock.coordinator.group.records import HistoryRecord
from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings, patience_ms
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.requests.own_apis import A_HEARTBEAT, GroupChange, GroupEpoch, What

AT_ONCE = GroupSettings(
    initial_rebalance_delay_ms=0, consumer=ConsumerSettings(assignment_interval=Bounded(0, 0, 0)), history_length=5
)


def told(bench: Bench, group_id: str = GROUP) -> list[GroupEpoch]:
    return bench.shard.describe_history(group_id, bench.now_ms).epochs


def who(epoch: GroupEpoch) -> list[tuple[str, str]]:
    return [(What(one.what).name, one.member_id) for one in epoch.changes]


def moved(epoch: GroupEpoch) -> dict[int, tuple[str, str]]:
    return {index: (one.giver, one.taker) for one in epoch.moves for index in one.partitions}


def test_who_came_what_moved_and_how_long_each_took() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.advance(1_000)
    bench.join("m2", "a")
    bench.advance(200)
    bench.beat("m1", 2)
    (asked,) = bench.shard.describe_history(GROUP, bench.now_ms).awaited
    assert (asked.member_id, asked.since_ms, asked.partitions[0].partitions) == ("m1", bench.now_ms, [1])
    bench.advance(300)
    bench.beat("m1", 2, {"a": [0]})
    bench.advance(100)
    bench.beat("m2", 3, {})
    first, second = told(bench)
    assert (who(first), moved(first)) == ([("JOINED", "m1")], {0: ("", "m1"), 1: ("", "m1")})
    assert (who(second), moved(second)) == ([("JOINED", "m2")], {1: ("m1", "m2")})
    assert (second.started_ms, second.formed_ms, second.ended_ms) == (1_001_000, 1_001_000, 1_001_600)
    assert [(one.member_id, one.took_ms, one.own_ms) for one in second.times] == [("m1", 500, 300), ("m2", 600, 0)]
    assert not bench.shard.describe_history(GROUP, bench.now_ms).awaited
    assert bench.shard.rebalances() == {"consumer": (2, 600)}


def test_what_a_static_member_has_again_has_not_moved() -> None:
    bench = Bench(AT_ONCE, a=2, b=1)
    bench.join("m1", "a", instance_id="i1")
    bench.beat("m1", -2, instance_id="i1")
    bench.join("m2", "a", "b", instance_id="i1")
    last = told(bench)[-1]
    assert (who(last), last.moved) == ([("REPLACED", "m2")], 1)
    assert [(one.topic, one.giver, one.taker) for one in last.moves] == [("b", "", "m2")]


def test_another_coordinator_tells_the_same_and_goes_on() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.join("m2", "a")
    bench.advance(100)
    bench.beat("m1", 2)
    before = told(bench)
    bench.restart()
    assert told(bench) == before
    assert [one.ended_ms >= 0 for one in before] == [True, False]
    bench.beat("m1", 2, {"a": [0]})
    bench.beat("m2", 3, {})
    assert [one.ended_ms >= 0 for one in told(bench)] == [True, True]


def test_only_what_is_committed_is_told_and_a_write_that_fails_tells_nothing() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.holds = True
    bench.join("m2", "a")
    bench.join("m3", "a")
    assert [one.epoch for one in told(bench)] == [2]
    bench.fail()
    assert [one.epoch for one in told(bench)] == [2]
    bench.join("m3", "a")
    bench.commit()
    assert [(one.epoch, who(one)) for one in told(bench)] == [(2, [("JOINED", "m1")]), (3, [("JOINED", "m3")])]


def test_the_last_epochs_are_kept_and_go_with_their_group() -> None:
    bench = Bench(AT_ONCE, a=1)
    for number in range(4):
        bench.join(f"m{number}", "a")
        bench.beat(f"m{number}", -1)
    assert [one.epoch for one in told(bench)] == [5, 6, 7, 8, 9]
    assert [one.number for one in told(bench)] == [4, 5, 6, 7, 8]
    bench.take(bench.shard.delete_group("delete", GROUP, bench.now_ms))
    assert bench.shard.describe_history(GROUP, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.shard._table.image.histories.group_ids() == []
    bench.restart()
    assert bench.shard._table.image.histories.group_ids() == []


def test_all_groups_of_a_partition_share_a_limit() -> None:
    bench = Bench(AT_ONCE.replace(history_bytes=200), a=1)
    for number in range(9):
        bench.join(f"m{number}", "a")
    histories = bench.shard._table.image.histories
    assert 0 < histories.bytes <= 200
    assert [one.number for one in told(bench)][-1] == 9
    left = dict(histories.of(GROUP))
    bench.restart()
    assert bench.shard._table.image.histories.of(GROUP) == left


def test_what_another_program_has_left_behind_is_forgotten() -> None:
    """Kafka takes a group away without what it does not know of."""
    bench = Bench(AT_ONCE, a=1)
    key, value = HistoryRecord("gone", 0, b"\0\0whatever").encode()
    bench.log.append(Append(0, [(key, value)]))
    bench.restart()
    assert bench.log[-1].records == [(key, None)]
    assert bench.shard._table.image.histories.group_ids() == []


def test_what_nobody_can_read_is_left_out() -> None:
    good, newer = (encoded(GroupEpoch(number=number, kind="consumer", epoch=7)) for number in (1, 2))
    unread = [b"", b"\0\0\0", newer[:-3], b"\0\7" + newer[2:]]
    for bad in unread:
        assert [one.number for one in GroupLog("g", {0: good, 1: bad}, 20).newest()] == [1]


def test_an_epoch_takes_a_bounded_place_in_the_log() -> None:
    epoch = GroupEpoch(
        number=1,
        kind="classic",
        cause="x" * 100_000,
        changes=[GroupChange(what=What.JOINED, member_id=f"{'é' * 115}{number}") for number in range(1_000)],
    )
    put_moves(epoch, {(f"{'t' * 200}{topic}", index): ("", "m") for topic in range(100) for index in range(100)})
    value = encoded(epoch)
    assert len(value) <= MOST_BYTES
    (read,) = GroupLog("g", {0: value}, 20).newest()
    assert (read.moved, read.unnamed + len(read.changes)) == (10_000, 1_000)
    assert len(read.changes) <= NAMED


# -- whoever is slow is named first -----------------------------------------------------------------------------------


def test_a_member_that_is_silent_is_named_before_it_is_out() -> None:
    bench, notes = Bench(AT_ONCE, a=1), Notes()
    bench.join("m1", "a")
    bench.take = notes.of(bench.take)  # type: ignore[method-assign]
    bench.advance(patience_ms(SESSION_MS))
    assert notes.lines == ["group readers: member m1 has sent no heartbeat for 30000 ms, and is out in 15000 ms"]
    (silent,) = bench.shard.describe_history(GROUP, bench.now_ms).awaited
    assert (silent.member_id, silent.what) == ("m1", A_HEARTBEAT)
    assert (silent.since_ms, silent.until_ms) == (1_000_000, 1_000_000 + SESSION_MS)
    bench.beat("m1", 2)
    assert not bench.shard.describe_history(GROUP, bench.now_ms).awaited
    bench.advance(SESSION_MS - 1)
    assert bench.group.state.members
    bench.advance(1)
    assert who(told(bench)[-1]) == [("SESSION_TIMEOUT", "m1")]
    bench.join("m2", "a")
    assert not bench.shard._table.historian._notes, "why somebody went is told once"
    assert "m1 sent no heartbeat for 45000 ms, and is out" in notes.lines[-1]


def test_a_member_that_gives_nothing_up_is_named_before_it_is_out() -> None:
    bench, notes = Bench(AT_ONCE, a=2), Notes()
    bench.join("m1", "a", rebalance_timeout_ms=9_000)
    bench.join("m2", "a")
    bench.beat("m1", 2)
    bench.take = notes.of(bench.take)  # type: ignore[method-assign]
    bench.advance(6_000)
    assert notes.lines == ["group readers: member m1 has 1 partitions to give up since 6000 ms, and is out in 3000 ms"]
    bench.advance(3_000)
    last = told(bench)[-1]
    assert (who(last), moved(last)) == ([("REBALANCE_TIMEOUT", "m1")], {0: ("m1", "")})
    bench.beat("m2", 3, {})
    assert moved(told(bench)[-1]) == {0: ("m1", "m2")}


class Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def of(self, take: Any) -> Any:
        def taken(effects: list[Effect]) -> None:
            self.lines += [effect.line for effect in effects if isinstance(effect, Note)]
            take(effects)

        return taken


# -- the classic protocol ---------------------------------------------------------------------------------------------

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=9_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)


class Classic:
    def __init__(self) -> None:
        self.now_ms = 0
        self.log: list[Any] = []
        self.replies: dict[object, Any] = {}
        self.notes: list[str] = []
        self.start()

    def start(self) -> None:
        self.shard = GroupShard(AT_ONCE, random.Random(1), ClusterImage())
        for record in self.log:
            self.shard.read(*record)
        self.take(self.shard.loaded(self.now_ms))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.log += effect.records
                self.take(self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms))
            elif isinstance(effect, Note):
                self.notes.append(effect.line)
            else:
                self.replies[effect.token] = effect.response  # type: ignore[union-attr]

    def join(self, name: str, member_id: str = "", instance_id: str | None = None) -> None:
        request = JOIN.replace(member_id=member_id, group_instance_id=instance_id)
        version = 3 if instance_id is None else 5
        self.take(self.shard.join(name, request, Caller(name, "/h", version), self.now_ms))
        self.advance(0)

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(deadline_ms, self.now_ms)
            self.take(self.shard.wake(self.now_ms))
        self.now_ms = end_ms

    def id_of(self, name: str) -> str:
        found: str = self.replies[name].member_id
        return found

    def assign(self, leader: str, **given: bytes) -> None:
        assignments = [
            SyncGroupRequestAssignment(member_id=self.id_of(name), assignment=what) for name, what in given.items()
        ]
        for name in given:
            request = SyncGroupRequest(
                group_id="g",
                member_id=self.id_of(name),
                generation_id=self.replies[name].generation_id,
                assignments=assignments if name == leader else [],
            )
            self.take(self.shard.sync(f"sync-{name}", request, self.now_ms))

    def beat(self, name: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id="g", member_id=self.id_of(name), generation_id=generation)
        return self.shard.heartbeat(request, self.now_ms)

    def told(self) -> list[GroupEpoch]:
        return self.shard.describe_history("g", self.now_ms).epochs


def of(*partitions: int) -> bytes:
    numbers = b"".join(index.to_bytes(4, "big") for index in partitions)
    return b"\0\0" + b"\0\0\0\1" + b"\0\1a" + len(partitions).to_bytes(4, "big") + numbers + b"\xff\xff\xff\xff"


def test_a_generation_is_told_with_what_moved_in_it_and_who_came_last() -> None:
    group = Classic()
    group.join("ann")
    group.assign("ann", ann=of(0, 1))
    group.advance(1_000)
    group.join("ben")
    (awaited,) = group.shard.describe_history("g", group.now_ms).awaited
    assert (awaited.member_id, awaited.what) == (group.id_of("ann"), "to join again")
    assert (awaited.since_ms, awaited.until_ms) == (1_000, 10_000)
    group.advance(700)
    group.join("ann", group.id_of("ann"))
    group.assign("ann", ann=of(0), ben=of(1))
    ann, ben = group.id_of("ann"), group.id_of("ben")
    first, second = group.told()
    assert (who(first), moved(first)) == ([("JOINED", ann)], {0: ("", ann), 1: ("", ann)})
    assert (who(second), moved(second)) == ([("JOINED", ben)], {1: (ann, ben)})
    assert [(one.member_id, one.own_ms) for one in second.times] == [(ann, 700), (ben, 0)]
    assert (second.started_ms, second.formed_ms, second.ended_ms, second.moved) == (1_000, 1_700, 1_700, 1)


def test_who_does_not_join_again_is_named_and_told_when_it_is_out() -> None:
    group = Classic()
    group.join("ann")
    group.assign("ann", ann=of(0))
    group.join("ben")
    ann = group.id_of("ann")
    group.advance(6_000)
    assert group.notes[-1] == f"group g: waits for {ann} to join again, for 3000 ms more"
    assert group.beat("ann", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    group.advance(3_000)
    group.assign("ben", ben=of(0))
    last = group.told()[-1]
    assert who(last) == [("REBALANCE_TIMEOUT", ann), ("JOINED", group.id_of("ben"))]
    assert last.ended_ms - last.started_ms == 9_000


def test_a_rebalance_that_is_handed_over_is_told_once_and_whole() -> None:
    group = Classic()
    group.join("ann")
    group.assign("ann", ann=of(0))
    group.advance(500)
    group.join("ben")
    group.advance(1_000)
    group.take(group.shard.seal(group.now_ms))
    group.start()
    assert [(one.epoch, one.ended_ms >= 0) for one in group.told()] == [(1, True), (1, False)]
    ann = group.id_of("ann")
    group.join("ann", ann)
    sealed = group.told()[-1]
    ben = next(one.member_id for one in sealed.changes)
    group.join("ben", ben)
    group.assign("ann", ann=of(0), ben=b"")
    first, second = group.told()
    assert (first.epoch, second.epoch) == (1, 2)
    assert who(second) == [("JOINED", ben)]
    assert (second.started_ms, second.ended_ms) == (500, 1_500)


def test_a_group_that_takes_the_place_of_another_kind_goes_on_in_its_history() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a")
    bench.beat("m1", -1)
    request = JOIN.replace(group_id=GROUP)
    for token in ("first", "second"):  # the first has the empty group taken away
        bench.take(bench.shard.join(token, request, Caller("ann", "/h", 3), bench.now_ms))
    bench.advance(0)
    ann = bench.replies["second"]
    sync = SyncGroupRequest(group_id=GROUP, member_id=ann.member_id, generation_id=1, assignments=[])
    bench.take(bench.shard.sync("sync", sync, bench.now_ms))
    assert [(one.number, one.kind, one.epoch) for one in told(bench)] == [
        (1, "consumer", 2),
        (2, "consumer", 3),
        (3, "classic", 1),
    ]
    leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=ann.member_id)])
    bench.take(bench.shard.leave("leave", leave, 5, bench.now_ms))
    bench.join("m2", "a")
    last = told(bench)[-1]
    assert (last.number, last.kind, who(last)) == (5, "consumer", [("CONVERTED", ""), ("JOINED", "m2")])


def test_a_static_member_is_awaited_until_its_session_ends() -> None:
    group = Classic()
    group.join("ann", instance_id="i")
    group.assign("ann", ann=of(0))
    group.advance(500)
    assert group.beat("ann", 1) is ErrorCode.NONE
    group.advance(500)
    group.join("ben")
    (awaited,) = group.shard.describe_history("g", group.now_ms).awaited
    assert (awaited.member_id, awaited.since_ms, awaited.until_ms) == (group.id_of("ann"), 1_000, 10_500)


def test_who_goes_on_its_way_to_an_assignment_has_taken_no_time_for_it() -> None:
    under_way = _UnderWay(3, 0, ["ann", "ben"])
    under_way.saw("ann", None, 5, gives_up=False)
    assert (list(under_way.behind), under_way.times) == (["ben"], {})
