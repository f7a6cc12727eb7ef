"""Fetch sessions (KIP-227): what a client fetches again and again is remembered, so that it sends changes only.

| epoch in the request | session id | meaning                                                                     |
| -------------------- | ---------- | --------------------------------------------------------------------------- |
| -1                   | any        | a full fetch without a session; the session named by the id is closed       |
| 0                    | any        | a full fetch that opens a new session; the session named by the id is closed |
| n > 0                | of session | an incremental fetch; n must be the epoch that the session expects          |

A response within a session names only the partitions that have something new to tell.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from uuid import UUID

from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.partition import Partition
from penstock.node.serving.slices import Pace, Slices, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.fetch import FetchFrame, FetchPartition
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader
from penstock.replication.waits import Wait, Waits

EVICTION_MS = 120_000
"""A session unused for this long makes room for any new one; one that is older than this, for a larger one."""
MAX_PARTITIONS = 250_000
"""Of all sessions together; they take a hundred megabytes."""
CHANGES_A_STEP = 250
"""Of what a session has; each takes about a microsecond."""
LOOK_AT_ALL_S = 5.0
"""How often a session of very many partitions is looked at as a whole."""
LET_GO_S = 5.0
"""So long after a partition has gone all sessions are looked at, once for all that have gone by then."""
LET_GO_AT_ONCE = 1_000
_LAST_EPOCH = 2**31 - 1
_NO_SESSION = 0

Key = tuple[str | UUID, int]


class Wanted:
    """`partition` and its `role` are those that were last read from, None when the request has to be checked anew."""

    __slots__ = (
        "is_asked",
        "key",
        "partition",
        "request",
        "role",
        "standing",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(self, key: Key, request: FetchPartition) -> None:
        self.key = key
        self.request = request
        self.is_asked = True
        """False once the partition has left its session."""
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.partition: Partition | None = None
        self.role: PartitionLeader | PartitionFollower | None = None
        self.standing: StandingWait | None = None
        """Marks the partition in its session when it has more, if the session keeps marks."""

    def is_quiet(self, replica_id: int) -> bool:
        """Whether the client has read and heard everything. Followers out of sync never are: they may come in."""
        partition, role = self.partition, self.role
        return (
            partition is not None
            and role is not None
            and partition.role is role
            and role.committed.high_watermark == self.told_high_watermark == self.request.fetch_offset
            and partition.log.has_known_ends  # one that failed has to be looked at: reading it again may fail, too
            and partition.log_start_offset == self.told_log_start_offset
            and (replica_id < 0 or _has_everything(partition.leader, replica_id, self.request.fetch_offset))
        )


def _has_everything(leader: PartitionLeader | None, replica_id: int, offset: int) -> bool:
    return leader is not None and leader.log_end_offset == offset and replica_id in leader.isr


class StandingWait:
    """Marks a partition in its session when it has more, between two polls as well: none is put there at each poll."""

    __slots__ = ("_session", "_wait", "_waits", "_wanted")

    def __init__(self, session: Session, wanted: Wanted, waits: Waits, offset: int) -> None:
        self._session = session
        self._wanted = wanted
        self._waits = waits
        self._wait: Wait | None = waits.add(offset, self)

    def __call__(self) -> None:
        self._wait = None  # it leads here
        self._wanted.standing = None
        self._session.marked[self._wanted] = None
        self._session.woken()

    def cancel(self) -> None:
        self._wanted.standing = None
        wait, self._wait = self._wait, None
        if wait is not None:
            self._waits.cancel(wait)


def nobody_waits() -> None: ...


@dataclass(slots=True)
class Session:
    """What one client fetches. `epoch` is the one that its next request must bear; followers are `privileged`.

    A poll of a follower, or of very many partitions, looks at `marked` ones only. Every other one was quiet when it was
    last looked at, and has a standing wait, which marks it and calls `woken`. What no wait tells of, as a beginning
    that retention moved, a look at all of them finds now and then (`looked_at_all_s`).
    """

    session_id: int
    uses_topic_ids: bool
    wanted: dict[Key, Wanted]
    privileged: bool
    created_ms: int
    last_used_ms: int
    epoch: int = 1
    marked: dict[Wanted, None] = field(default_factory=dict)
    woken: Callable[[], None] = nobody_waits
    is_open: bool = True
    looked_at_all_s: float = float("-inf")

    @property
    def keeps_marks(self) -> bool:
        """Whether a poll has ever looked at marked partitions; before, none is marked or has a standing wait."""
        return self.looked_at_all_s >= 0

    def to_look_at(self, now_s: float) -> list[Wanted]:
        if now_s - self.looked_at_all_s >= LOOK_AT_ALL_S:
            self.looked_at_all_s = now_s
            self.marked = dict.fromkeys(self.wanted.values())
        return list(self.marked)

    def ask(self, key: Key, request: FetchPartition) -> None:
        wanted = self.wanted.get(key)
        if wanted is None:
            wanted = self.wanted[key] = Wanted(key, request)
        else:
            wanted.request = request
            wanted.role = None
        if self.keeps_marks:
            self.marked[wanted] = None

    def forget(self, key: Key) -> None:
        wanted = self.wanted.pop(key, None)
        if wanted is None:
            return
        wanted.is_asked = False
        self.marked.pop(wanted, None)
        if wanted.standing is not None:
            wanted.standing.cancel()

    @property
    def rank(self) -> tuple[bool, int]:
        """What is worth more: followers before consumers, then many partitions."""
        return self.privileged, len(self.wanted)

    def to_the_back(self, keys: Iterable[Key]) -> None:
        """Partitions that had records come last in the next fetch, so that none starves. Skips ones that have left."""
        if len(self.wanted) == 1:
            return
        for key in keys:
            wanted = self.wanted.pop(key, None)
            if wanted is not None:
                self.wanted[key] = wanted
                if wanted in self.marked:
                    del self.marked[wanted]
                    self.marked[wanted] = None


class FetchPlan(NamedTuple):
    wanted: dict[Key, Wanted]
    session: Session | None = None
    is_incremental: bool = False

    @property
    def session_id(self) -> int:
        return _NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions of one node, at most `max_sessions` of them, the longest unused first.

    Which session may take another's place, by Kafka's rules:

    | there is                                             | it goes for                                  |
    | ---------------------------------------------------- | -------------------------------------------- |
    | a session that was not used for `EVICTION_MS`        | any one                                      |
    | a consumer's session                                 | a follower                                   |
    | one of the same kind that is older than `EVICTION_MS` | one with more partitions, the smallest first |

    So no consumer ever takes a follower's place that is in use.
    """

    def __init__(self, max_sessions: int, random: Random) -> None:
        self._max_sessions = max_sessions
        self._random = random
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._remembered = 0
        self.ended: list[Session] = []
        self.tasks = Tasks()
        """Remove the standing waits of sessions that have ended, and what is kept of partitions that have gone."""
        self._lets_go = False

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self, frame: FetchFrame, wanted: dict[Key, Wanted] | None, *, uses_topic_ids: bool, now_ms: int
    ) -> Steps[FetchPlan]:
        """`wanted` is what the request names, if known (`wanted_in`). KafkaError for an unknown session or epoch."""
        if frame.session_epoch <= 0:
            self.close(frame.session_id)
            if wanted is None:
                wanted = wanted_in(frame, uses_topic_ids=uses_topic_ids)
            if frame.session_epoch < 0 or not wanted:
                return FetchPlan(wanted)
            privileged = frame.replica_id >= 0
            return FetchPlan(wanted, self._open(wanted, uses_topic_ids, now_ms, privileged=privileged))
        session = self._sessions.get(frame.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != frame.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        yield from self._update(session, frame)
        if not session.wanted:
            self.close(session.session_id)
            return FetchPlan({})
        return FetchPlan(session.wanted, session, is_incremental=True)

    def _open(
        self, wanted: dict[Key, Wanted], uses_topic_ids: bool, now_ms: int, *, privileged: bool
    ) -> Session | None:
        """A new session, or None when there is no room for it: the client then fetches without one."""
        while len(self._sessions) >= self._max_sessions or self._remembered + len(wanted) > MAX_PARTITIONS:
            evicted = self._to_evict((privileged, len(wanted)), now_ms)
            if evicted is None:
                return None
            self.close(evicted.session_id)
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = Session(session_id, uses_topic_ids, wanted, privileged, now_ms, now_ms)
        self._sessions[session_id] = session
        self._remembered += len(wanted)
        return session

    def _to_evict(self, newcomer: tuple[bool, int], now_ms: int) -> Session | None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms >= EVICTION_MS:
            return oldest
        may_go = (
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS or (newcomer[0] and not session.privileged)
        )
        least = min(may_go, key=lambda session: session.rank, default=None)
        return least if least is not None and least.rank < newcomer else None

    def close(self, session_id: int) -> None:
        """Unknown ones are skipped."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._remembered -= len(session.wanted)
            session.is_open = False
            if session.keeps_marks:
                self.ended.append(session)

    def on_partition_gone(self, slices: Slices) -> None:
        """It may be kept, with its log, by sessions of clients that ask no more."""
        if not self._lets_go and self._sessions:
            self._lets_go = True
            self.tasks.start(self._let_go(slices), "partitions that have gone, in fetch sessions")

    async def _let_go(self, slices: Slices) -> None:
        await asyncio.sleep(LET_GO_S)
        self._lets_go = False
        for session in list(self._sessions.values()):
            await slices.each(list(session.wanted.values()), LET_GO_AT_ONCE, _let_go_of_ended)

    def _update(self, session: Session, frame: FetchFrame) -> Steps[None]:
        """In steps, between which the session may be closed, but not asked: it has its next epoch already."""
        before, pace = len(session.wanted), Pace(CHANGES_A_STEP)
        for _ in _changes(session, frame):
            if pace.is_due():
                self._count(session, before)
                before = len(session.wanted)
                yield None
                if not session.is_open:
                    raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._count(session, before)

    def _count(self, session: Session, before: int) -> None:
        """How many partitions it had before."""
        self._remembered += len(session.wanted) - before
        if self._remembered > MAX_PARTITIONS:
            self.close(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # the client asks for everything again


def _changes(session: Session, frame: FetchFrame) -> Iterator[None]:
    """Carries them out one by one."""
    for topic in frame.forgotten_topics:
        name = topic.topic_id if session.uses_topic_ids else topic.name
        for index in topic.partitions:
            session.forget((name, index))
            yield
    for asked in frame.topics:
        name = asked.topic_id if session.uses_topic_ids else asked.name
        for partition in asked.partitions:
            session.ask((name, partition.index), partition)
            yield


def _let_go_of_ended(some: Sequence[Wanted]) -> None:
    for wanted in some:
        if wanted.partition is not None and wanted.partition.role is None:
            wanted.partition = wanted.role = None


def wanted_in(frame: FetchFrame, *, uses_topic_ids: bool) -> dict[Key, Wanted]:
    """The partitions that a request names. It touches no state of the node, so it may run in a thread."""
    wanted: dict[Key, Wanted] = {}
    for topic in frame.topics:
        name_or_id = topic.topic_id if uses_topic_ids else topic.name
        for partition in topic.partitions:
            key = name_or_id, partition.index
            wanted[key] = Wanted(key, partition)
    return wanted
