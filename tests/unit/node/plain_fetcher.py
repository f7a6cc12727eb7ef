"""A fetcher that says for each step what it would ask for and what rests until when. For histories drawn by chance."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.unit.node.on_disk import TOPIC_ID

from penstock.node.partitions.replica_fetcher import PASSING, PASSING_MS
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.following import Followed, Key, Position

BACKOFF_MS = 500
PATIENCE_MS = 70
LOOKED_AT, APPENDED = 3, 5


def no_room() -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


def nobody() -> None: ...


class One:
    """A partition and its log, which are what chance says."""

    def __init__(self, index: int) -> None:
        self.topic, self.index, self.topic_id = "orders", index, TOPIC_ID
        self.key: Key = (TOPIC_ID.bytes, index)
        self.log = self
        self.leader_epoch = self.log_end_offset = self.log_start_offset = 0
        self.is_lent = self.is_kept = False
        self.back: list[Callable[[], None]] = []
        self.kept: list[Callable[[], None]] = []
        self.follower_quota: Any = None
        self.recorded: list[tuple[int, int]] = []

    def become(self, other: One) -> None:
        """What is drawn for it is this replica's, too."""
        drawn = {"back": self.back, "kept": self.kept, "log": self, "recorded": list(other.recorded)}
        self.__dict__ |= other.__dict__ | drawn
        self.follower_quota = other.follower_quota and self

    def state(self) -> tuple[object, ...]:
        return self.log_end_offset, self.log_start_offset, self.is_lent, self.recorded, len(self.back), len(self.kept)

    def draw(self, random: Random) -> None:
        self.follower = random.choice((None, SimpleNamespace(may_be_held_back=random.random() < 0.4)))
        self.health = SimpleNamespace(is_full=random.random() < 0.2)
        self.waits_ms = random.choice((0, 20, 2 * BACKOFF_MS))
        self.follower_quota = random.choice((None, None, self))
        self.recorded = []
        self.is_kept = random.random() < 0.7
        self.cannot_be_read = random.random() < 0.03
        self.fails = random.choice((None,) * 8 + (no_room, ValueError))
        self.vanishes, self.cannot_tell = random.random() < 0.2, random.random() < 0.2
        self.latest, self.earliest = random.randrange(8), random.randrange(8)

    @property
    def latest_epoch(self) -> int:
        if self.cannot_be_read:
            raise no_room()
        return self.leader_epoch - 1

    def when_back(self, go_on: Callable[[], None]) -> bool:
        if self.is_lent:
            self.back.append(go_on)
        return self.is_lent

    def when_kept(self, go_on: Callable[[], None]) -> bool:
        if not self.is_kept:
            self.kept.append(go_on)
        return not self.is_kept

    def wait_ms(self, now_ms: int) -> int:
        return self.waits_ms

    def record(self, size: int, now_ms: int) -> None:
        self.recorded.append((size, now_ms))

    def append_fetched(self, records: bytes, high_watermark: int, log_start_offset: int) -> None:
        if self.fails is not None:
            raise self.fails()
        self.log_end_offset += len(records)
        self.log_start_offset = log_start_offset

    def position(self) -> Position:
        return Position(self.log_end_offset, self.log_start_offset, self.leader_epoch, self.leader_epoch - 1)


class Plain:
    """What the fetcher should want, with every step written down."""

    def __init__(self, address: Callable[[], Address | None]) -> None:
        self.address = address
        self.now_ms = 0
        self.followed: dict[Key, One] = {}
        self.resting: dict[Key, int] = {}
        self.passing: dict[Key, int] = {}
        self.wanted: dict[Key, Position] = {}
        self.told: dict[Key, Position] = {}
        self.unkept: dict[Key, None] = {}
        self.patience_ms: int | None = None
        self.out_of_range: list[tuple[One, int]] = []
        self.cuts: list[object] = []
        self.is_asking = False
        self.failures = self.next_epoch = 0
        self.pauses: list[int] = []
        self.ends_asked = 0
        self.connected: Address | None = None

    def follow(self, one: One) -> None:
        self.resting.pop(one.key, None)
        self.passing.pop(one.key, None)
        self.followed[one.key] = one
        self.want(one)

    def leave(self, one: One) -> None:
        self.resting.pop(one.key, None)
        self.passing.pop(one.key, None)
        if self.followed.pop(one.key, None) is not None:
            self.forget(one.key)

    def forget(self, key: Key) -> None:
        self.wanted.pop(key, None)
        self.told.pop(key, None)

    def rest(self, key: Key, at_most_ms: int = BACKOFF_MS) -> None:
        self.forget(key)
        self.resting[key] = self.now_ms + min(at_most_ms, BACKOFF_MS)

    def want(self, one: One) -> None:
        if one.is_lent:
            self.forget(one.key)
            one.back.append(nobody)
        elif one.follower is not None and one.follower.may_be_held_back and one.health.is_full:
            self.rest(one.key)
        elif one.follower is not None and one.follower.may_be_held_back and one.follower_quota and one.waits_ms:
            self.rest(one.key, one.waits_ms)
        elif not one.is_kept:
            self.forget(one.key)
            one.kept.append(nobody)
            self.unkept[one.key] = None
        elif one.cannot_be_read:
            self.rest(one.key)
        else:
            self.wanted[one.key] = one.position()

    def is_back(self, one: One) -> None:
        if self.followed.get(one.key) is one and one.key not in self.resting:
            self.want(one)

    def is_kept(self, one: One) -> None:
        self.unkept.pop(one.key, None)
        self.is_back(one)
        if self.patience_ms is not None and not self.unkept:
            self.go_on_asking()

    def go_on_asking(self) -> None:
        self.patience_ms = None
        self.unkept.clear()
        self.is_asking = False
        if self.out_of_range or self.connected != self.address() or not self.wanted:
            self.end()

    def end(self) -> None:
        """Of a row of requests: then it is seen where logs end that ask for what is not there."""
        out_of_range, self.out_of_range = self.out_of_range, []
        for one, epoch in out_of_range:
            if self.followed.get(one.key) is one and one.leader_epoch == epoch:
                self.find_its_end(one)

    def find_its_end(self, one: One) -> None:
        self.ends_asked += 1
        if one.vanishes:
            self.leave(one)
        is_followed = not one.vanishes
        is_cut = one.latest < one.log_end_offset
        if one.cannot_tell:
            if is_followed:
                self.rest(one.key)
            return
        self.ends_asked += not is_cut
        if not is_followed:
            return
        if is_cut:
            self.cut(one, "to_the_leaders_end", one.latest)
        elif one.earliest > one.log_end_offset:
            self.cut(one, "anew", one.earliest)
        else:
            self.want(one)

    def cut(self, one: One, *how: object) -> None:
        self.cuts.append((one.index, *how))
        if one.fails:
            self.rest(one.key)
        else:
            one.is_lent = True
            self.want(one)

    @staticmethod
    def at_once(rows: list[Followed]) -> int:
        """So many are taken before others have their turn."""
        sizes = [sum(len(row.records) for row in rows[:count]) for count in range(1, len(rows) + 1)]
        enough = (count for count, size in enumerate(sizes, 1) if count == LOOKED_AT or size >= APPENDED)
        return next(enough, len(rows))

    def take(self, rows: list[Followed], session_id: int) -> None:
        self.failures = 0
        for row in rows:
            self.take_row(row)
        if session_id:
            self.next_epoch += 1
        else:
            self.reset()
        if self.unkept:
            self.is_asking, self.patience_ms = False, self.now_ms + PATIENCE_MS
        else:
            self.go_on_asking()

    def reset(self) -> None:
        self.next_epoch = 0
        self.told.clear()

    def take_row(self, row: Followed) -> None:
        one, told = self.followed.get(row.key), self.told.get(row.key)
        if one is None or told is None or told.leader_epoch != one.leader_epoch:
            return
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.out_of_range.append((one, one.leader_epoch))
        elif row.error_code in PASSING:
            pause_ms = self.passing.get(one.key, PASSING_MS)
            self.passing[one.key] = min(2 * pause_ms, BACKOFF_MS)
            self.rest(one.key, pause_ms)
        elif row.error_code:
            self.rest(one.key)
        else:
            self.passing.pop(one.key, None)
            self.use(one, told, row)

    def use(self, one: One, told: Position, row: Followed) -> None:
        if one.is_lent or told.fetch_offset != one.log_end_offset:
            self.want(one)
        elif row.diverging is not None:
            self.cut(one, "where_it_parts", *row.diverging)
        else:
            if row.records and one.follower_quota:
                one.recorded.append((len(row.records), self.now_ms))
            if one.fails:
                self.rest(one.key)
                return
            one.log_end_offset += len(row.records)
            one.log_start_offset = row.log_start_offset
            self.want(one)

    def fail(self, *, is_new_session: bool = False) -> None:
        self.reset()
        self.unkept.clear()
        self.patience_ms, self.is_asking = None, False
        if is_new_session:
            self.end()
            return
        self.out_of_range.clear()
        self.pauses.append(self.failures)
        self.failures += 1
        self.connected = None

    def asks(self) -> bool:
        """Whether another request is to go out; it does."""
        if self.is_asking or self.patience_ms is not None or not self.wanted:
            return False
        if self.connected != self.address():
            self.reset()
            self.connected = self.address()
        self.told, self.is_asking = dict(self.wanted), True
        return True
