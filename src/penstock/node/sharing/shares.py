"""All share partitions that are led here, by group and partition, and the share sessions of this broker.

A share partition is made when a member first fetches of it, and loaded from what its share coordinator has. It ends
when this node leads the partition no longer, when the coordinator fences it or has nothing of it, and when its group
has no session here any more and all is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.coordinators.host import HostContext
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Registry
from penstock.node.serving.slices import Slices
from penstock.node.sharing.clocks import shifted
from penstock.node.sharing.dead_letter_metrics import register_dead_letters
from penstock.node.sharing.dead_letters import DeadLetterWriter
from penstock.node.sharing.group_settings import GroupSettings, OfGroup
from penstock.node.sharing.ordered import OrderedShared
from penstock.node.sharing.persister import Epochs
from penstock.node.sharing.share_metrics import Counted, register_shares
from penstock.node.sharing.shared import Shared
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.acquiring import Acquired
from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.keys import ShareKey
from penstock.sharing.sessions import SessionKey, ShareSession, ShareSessions, TopicPartition
from penstock.sharing.values import NOT_WRITTEN, Acknowledgement, Status, Write, Written

if TYPE_CHECKING:
    from penstock.node.partitions.partition import Partition
    from penstock.node.sharing.persister import Persister

ENDS_IT: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What a write may bring that tells that somebody else leads, or that there is nothing to lead."""
AT_ONCE: Final = 100
"""Share partitions that are looked at, or let go, in one turn of the event loop: a millisecond."""
NOT_A_MACHINES: Final = 0
"""The number of a write that no machine waits for."""
T = TypeVar("T")
Answer = Callable[[KafkaError | None], None]
Given = Callable[[Sequence[Acquired], KafkaError | None], None]


def nobody(_: KafkaError | None) -> None:
    """Nobody hears of it."""


class Shares:
    """`find` gives the partition of a topic by its id, if it is led here, or raises KafkaError."""

    def __init__(
        self,
        config: BrokerConfig,
        context: HostContext,
        persister: Persister,
        find: Callable[[UUID, int], Partition],
        slices: Slices,
        random: Random,
    ) -> None:
        self.settings = GroupSettings(config, context.image)
        self.sessions = ShareSessions(config.group_share_max_share_sessions)
        self._context = context
        self._persister = persister
        self._find = find
        self._slices = slices
        self._led: dict[ShareKey, Shared] = {}
        self._of_groups: dict[str, dict[ShareKey, Shared]] = {}
        """The same, by group."""
        self.counted = Counted()
        self._tasks = Tasks()
        self._letters = DeadLetterWriter(config, context, self.settings, random, self._buried)
        self._has_stopped = False

    def register(self, metrics: Registry) -> None:
        led = self._led
        register_shares(metrics, self.counted, self.sessions, lambda: list(led.values()), self._context.now_ms)
        register_dead_letters(metrics, self._letters.counted, lambda: list(led.values()))

    async def stop(self) -> None:
        self._has_stopped = True
        for shared in list(self._led.values()):
            self._end(shared)
        await self._letters.stop()
        await self._persister.stop()  # those that load may wait for it
        self._tasks.cancel()
        await self._tasks.settle()

    def in_slices(self, items: Sequence[T], do: Callable[[Sequence[T]], object]) -> None:
        """Do it at once, or where these are very many, in the background."""
        if len(items) <= AT_ONCE:
            do(items)
        else:
            self._tasks.start(self._slices.each(items, AT_ONCE, do), "share partitions")

    # share partitions

    def led(self, group_id: str, place: TopicPartition) -> Shared | None:
        """If a member has fetched of it, and it is loaded."""
        shared = self._led.get(ShareKey(group_id, *place))
        return shared if shared is not None and shared.machine.status is Status.ACTIVE else None

    def lead(self, group_id: str, place: TopicPartition) -> Shared:
        """The share partition, which may still be loading. KafkaError if it is not led here, or cannot be loaded."""
        self._check_runs()
        partition = self._find(*place)
        key = ShareKey(group_id, *place)
        shared, settings = self._led.get(key), self.settings.of(group_id, keeps=True)
        if shared is not None and (not shared.is_led or self._is_of_another_kind(shared, settings)):
            self._end(shared)
            shared = None
        if shared is None:
            shared = self._led[key] = self._made(key, partition, settings)
            self._of_groups.setdefault(group_id, {})[key] = shared
            shared.when_led_no_longer(partial(self._end, shared))
            shared.machine.load()
            self._tasks.start(self._load(shared), f"load share partition {key.text}")
        elif shared.error is not None:
            self._end(shared)
            raise shared.error
        shared.machine.configure(settings.partitions)
        shared.reads_committed = settings.reads_committed
        return shared

    def _made(self, key: ShareKey, partition: Partition, settings: OfGroup) -> Shared:
        if settings.partitions.ordered_by_key:
            return OrderedShared(key, partition, settings.partitions, self._expire, self._slices)
        return Shared(key, partition, settings.partitions, self._expire)

    @staticmethod
    def _is_of_another_kind(shared: Shared, settings: OfGroup) -> bool:
        """The group has another order by now. What is still to be written is written first."""
        is_ordered = isinstance(shared, OrderedShared)
        return is_ordered != settings.partitions.ordered_by_key and not shared.machine.is_writing

    def _check_runs(self) -> None:
        if self._has_stopped:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker stops")

    def _end(self, shared: Shared) -> None:
        if self._led.get(shared.key) is shared:
            del self._led[shared.key]
            of_group = self._of_groups[shared.key.group_id]
            del of_group[shared.key]
            if not of_group:
                del self._of_groups[shared.key.group_id]
                self.settings.forget(shared.key.group_id)
        shared.close()

    async def _load(self, shared: Shared) -> None:
        began_s = asyncio.get_running_loop().time()
        try:
            written = await self._persister.read(shared.key, shared.leader_epoch)
            begins_at = written.start_offset
            if begins_at == NOT_WRITTEN:
                begins_at = await self._first_offset(shared)
                await self._write_beginning(shared, written, begins_at)
            if shared.machine.status is Status.INITIALIZING:
                batches = shifted(written.batches, -self._ahead_ms(shared))
                shared.machine.loaded(written.replace(batches=batches), begins_at, shared.now_ms())
                self.counted.load_time.took(asyncio.get_running_loop().time() - began_s)
        except KafkaError as error:
            shared.fail(error)
        except ValueError as error:
            shared.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        self._bury(shared)
        shared.has_news()

    def _ahead_ms(self, shared: Shared) -> int:
        """How far the wall clock is ahead of the share partition's."""
        return self._context.now_ms() - shared.now_ms()

    async def _write_beginning(self, shared: Shared, written: Written, begins_at: int) -> None:
        """Before anything is given away: the next leader would find another one, and leave out what is between."""
        epochs = Epochs(shared.leader_epoch, written.state_epoch)
        await self._persister.write(shared.key, epochs, Write(NOT_A_MACHINES, begins_at, 0, ()))

    async def _first_offset(self, shared: Shared) -> int:
        """Where a group begins of which nothing is written down yet: share.auto.offset.reset."""
        reset = self.settings.of(shared.key.group_id).begins
        partition = shared.partition
        if reset == "earliest":
            return partition.log_start_offset
        if reset == "latest":
            return partition.high_watermark
        from penstock.client.durations import parse_duration_ms  # few groups begin by the time

        begin_ms = self._context.now_ms() - parse_duration_ms(reset.partition(":")[2])
        steps = partition.log.search_timestamp(max(begin_ms, 0))
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)
        except StopIteration as stop:
            found = stop.value
        return partition.high_watermark if found is None else min(found.offset, partition.high_watermark)

    # what members say

    def acknowledge(
        self, session: SessionKey, place: TopicPartition, said: Sequence[Acknowledgement], answer: Answer
    ) -> None:
        """`answer` is called once, perhaps at once: None when it holds, or why it does not."""
        shared = self._led.get(ShareKey(session.group_id, *place))
        try:
            self._check_runs()
            if shared is None or shared.machine.status is not Status.ACTIVE:
                reason = "the member has no records of this partition here"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
            write = shared.machine.acknowledge(session.member_id, said, shared.now_ms())
        except KafkaError as error:
            answer(error)
            return

        def answered(error: KafkaError | None) -> None:
            if error is None:
                self.counted.holds(said)
            answer(error)

        if write is None:
            answered(None)
        else:
            self._write(shared, write, answered)

    def count(self, shared: Shared, member: str, acquired: Sequence[Acquired], told: Given) -> None:
        """Have written how often these were delivered; `told` hears what the member gets, or why it gets nothing."""

        def written(error: KafkaError | None) -> None:
            told([] if error is not None else shared.machine.given(member, acquired), error)

        self._write(shared, shared.machine.counting(acquired), written)

    def _expire(self, shared: Shared) -> None:
        write = shared.machine.expire(shared.now_ms())
        if write is not None:
            shared.locks_run_out += sum(it.last - it.first + 1 for it in write.batches)
            self._write(shared, write, nobody)
        self._bury(shared)
        shared.has_news()

    # dead letters

    def _bury(self, shared: Shared) -> None:
        """Have dead letters written that are due, and tell where deliveries pause or go on."""
        machine = shared.machine
        if machine.status is not Status.ACTIVE:
            return
        letters = machine.take_dead_letters(shared.now_ms())
        if letters:
            self._letters.bury(shared, letters)
        shared.tell_of_pauses()

    def _buried(self, shared: Shared, letters: Sequence[DeadLetter]) -> None:
        write = shared.machine.buried(letters)
        if write is not None:
            self._write(shared, write, nobody)
        else:
            self._end_if_idle(shared)

    # what is written down

    def _write(self, shared: Shared, write: Write, answer: Answer) -> None:
        epochs = Epochs(shared.leader_epoch, shared.machine.state_epoch)
        batches = shifted(write.batches, self._ahead_ms(shared))
        shown = write if batches is write.batches else write.replace(batches=batches)
        written = self._persister.write(shared.key, epochs, shown)
        written.add_done_callback(partial(self._written, shared, write.write_id, answer))

    def _written(self, shared: Shared, write_id: int, answer: Answer, written: asyncio.Future[None]) -> None:
        error = written.exception()
        assert error is None or isinstance(error, KafkaError)
        shared.machine.written(write_id, is_written=error is None, now_ms=shared.now_ms())
        if error is not None and error.code in ENDS_IT:
            self._end(shared)
        self._bury(shared)
        answer(error)
        shared.has_news()
        self._end_if_idle(shared)

    # sessions

    def open(self, key: SessionKey, connection_id: int, owner: str) -> ShareSession:
        """KafkaError SHARE_SESSION_LIMIT_REACHED. If the group is another one of the same name, it begins anew."""
        session = self.sessions.open(key, connection_id, owner)
        led = [shared for shared in self._of_groups.get(key.group_id, {}).values() if not shared.is_checked]
        if led:
            self._tasks.start(self._check(led), f"whether {key.group_id} is the same group")
        return session

    async def _check(self, led: Sequence[Shared]) -> None:
        for shared in led:
            shared.is_checked = True
        for shared in led:
            machine = shared.machine
            shared.is_checked = False
            if machine.status is not Status.ACTIVE or not shared.is_led:
                continue
            if await self._persister.has_begun_anew(shared.key, shared.leader_epoch, machine.state_epoch):
                self._end(shared)

    def close(self, key: SessionKey) -> None:
        """End a session: all that the member has is free. A group without any keeps nothing here."""
        if self.sessions.close(key) is None:
            return
        self.in_slices(list(self._of_groups.get(key.group_id, {}).values()), partial(self._release, key))

    def _release(self, key: SessionKey, some: Sequence[Shared]) -> None:
        """If the member has begun again meanwhile, what it had runs out: it cannot be told from what it has now."""
        for shared in some:
            if shared.machine.status is Status.ACTIVE and key not in self.sessions:
                write = shared.machine.release(key.member_id, shared.now_ms())
                if write is not None:
                    self._write(shared, write, nobody)
            self._end_if_idle(shared)

    def connection_gone(self, connection_id: int) -> None:
        """Its sessions end."""
        self.in_slices(self.sessions.on_connection(connection_id), partial(self._evict, connection_id))

    def _evict(self, connection_id: int, keys: Sequence[SessionKey]) -> None:
        """Those that have not begun again on another connection."""
        for key in keys:
            if self.sessions.is_on(key, connection_id):
                self.counted.evictions += 1
                self.close(key)

    def _end_if_idle(self, shared: Shared) -> None:
        """Who comes next reads what is written, so that must be all."""
        if not self.sessions.has_members(shared.key.group_id) and not shared.machine.is_writing:
            self._end(shared)
