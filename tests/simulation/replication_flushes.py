"""Replication where `flush.messages` is 1, disks get stuck, and a crash is a power cut: what was not flushed is gone.

A leader whose flush is stuck hands over, by the machine with which a node does so; what is more than glue there is used
here as well.
"""

from random import Random
from typing import Any

from tests.simulation.replication_hosts import Host
from tests.simulation.replication_invariants import must
from tests.simulation.replication_log import MemoryLog
from tests.simulation.replication_world import World

from penstock.leadership.transfer import Answer, Effect, Limits, State, Transfer
from penstock.log.config import LogConfig
from penstock.node.partitions import hand_over
from penstock.node.partitions.hand_overs import ELSEWHERE
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import HandOverLeaderRequest

AGAIN_MS = 100
STEP_MS = 20
LONGEST_STUCK_MS = 4_000


class FlushedLog(MemoryLog):
    config = LogConfig(flush_messages=1)

    def __init__(self) -> None:
        super().__init__()
        self.kept = self.cuts = 0

    @property
    def kept_offset(self) -> int:
        return self.kept

    def truncate_to(self, offset: int) -> int:
        self.kept = min(self.kept, offset)
        self.cuts += 1
        return super().truncate_to(offset)


class FlushingWorld(World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.disks = Random(seed + 2)
        self.stuck: dict[int, int] = {}
        """Until when."""
        self.flushing: dict[int, int] = {}
        """In which life."""
        self.transfers: dict[int, Transfer] = {}
        self.asked_epochs: dict[Transfer, int] = {}
        """With which partition epoch: as what may have been made of it, never with another one."""
        self.handed_over = 0
        for host in self.hosts.values():
            host.log = FlushedLog()
            host.flush = self._flush_of(host)

    def _flush_of(self, host: Host) -> Any:
        def flush(partition: IsrPartition) -> None:
            if self.flushing.get(host.id) != host.lives:
                self.flushing[host.id] = host.lives
                self._begin(host, partition)

        return flush

    def _begin(self, host: Host, partition: IsrPartition) -> None:
        log = host.log
        assert isinstance(log, FlushedLog)
        end, cuts = log.log_end_offset, log.cuts

        def ended() -> None:
            if self.stuck.get(host.id, 0) > self.now_ms:
                partition.got_stuck()
                self.after(AGAIN_MS, self.at_host(host, lambda: self._begin(host, partition)))
                return
            del self.flushing[host.id]
            if log.cuts == cuts:
                log.kept = max(log.kept, end)
            partition.flushed()

        self.after(self.disks.randrange(1, 30), self.at_host(host, ended))

    # trouble

    def crash(self, host: Host) -> None:
        assert isinstance(host.log, FlushedLog)
        super().crash(host)
        host.log.truncate_to(host.log.kept)
        self.transfers.pop(host.id, None)

    def trouble(self) -> None:
        super().trouble()
        if not self.calm and self.disks.random() < 0.2:
            newest = self.newest
            is_leaders = newest is not None and newest.leader in self.hosts and self.disks.random() < 0.8
            number = newest.leader if newest and is_leaders else self.disks.choice(list(self.hosts))
            self.stuck[number] = self.now_ms + self.disks.randrange(LONGEST_STUCK_MS)
            self.note(f"the disk of {number} is stuck until {self.stuck[number]}")

    def heal(self) -> None:
        self.stuck.clear()
        super().heal()

    # hand-overs

    def boot(self, host: Host) -> None:
        super().boot(host)
        self._repeat(host, STEP_MS, self._hand_over)

    def _hand_over(self, host: Host) -> None:
        partition = host.partition
        transfer = self.transfers.get(host.id)
        if partition is None:
            return
        if transfer is None:
            self._begin_transfer(host, partition)
            return
        leader = partition.leader
        if leader is None or leader.leader_epoch != transfer.leader_epoch:
            del self.transfers[host.id]
            return
        if self.asked_epochs.get(transfer, leader.partition_epoch) != leader.partition_epoch:
            self._do(host, transfer, transfer.on_leader(host.id, leader.leader_epoch, is_self=True))
        self._do(host, transfer, transfer.on_time(self.now_ms))
        reached = hand_over._reached(leader)
        self._do(host, transfer, transfer.on_committed(reached, leader.log_end_offset, self.now_ms))

    def _begin_transfer(self, host: Host, partition: IsrPartition) -> None:
        leader = partition.leader
        if leader is None or not leader.kept.is_stuck:
            return
        others = [one for one in leader.isr if one in leader.followers]
        if others:
            end, limits = leader.log_end_offset, Limits(silent_ms=900)
            self.transfers[host.id] = Transfer(others[0], leader.leader_epoch, end, limits, self.now_ms)

    def _do(self, host: Host, transfer: Transfer, effects: Any) -> None:
        partition = host.partition
        assert partition is not None
        for effect in effects:
            if effect is Effect.HOLD:
                partition.appender = None
            elif effect is Effect.RESUME:
                partition.appender = partition.leader
            elif effect is Effect.ASK:
                self._ask(host, partition, transfer)
        if transfer.state is State.OVER and self.transfers.get(host.id) is transfer:
            del self.transfers[host.id]

    def _ask(self, host: Host, partition: IsrPartition, transfer: Transfer) -> None:
        leader, topic = partition.leader, host.image.topics["t"]
        assert leader is not None
        epoch = self.asked_epochs.setdefault(transfer, leader.partition_epoch)
        is_committed = leader.high_watermark == leader.log_end_offset
        must(bool(leader._counted) or is_committed, f"nobody but {host.id} is in sync, or may be")
        if epoch == leader.partition_epoch:
            self._check_given(host, leader.isr)
        request = HandOverLeaderRequest(
            topic_id=topic.topic_id,
            partition=0,
            leader_epoch=leader.leader_epoch,
            partition_epoch=epoch,
            successor=transfer.successor,
            has_no_room=True,
            broker_id=host.id,
            broker_epoch=host.epoch,
        )

        def told(reply: Any, _: int) -> None:
            answer = Answer.UNKNOWN if isinstance(reply, KafkaError) else _answer(ErrorCode(reply.error_code))
            self.handed_over += answer is Answer.MADE
            if self.transfers.get(host.id) is transfer and host.partition is partition:
                self._do(host, transfer, transfer.on_answer(answer, self.now_ms))

        self.note(f"{host.id} hands over to {transfer.successor}")
        self.ask_controller(host, request, told)

    def _check_given(self, host: Host, isr: tuple[int, ...]) -> None:
        """Whoever may lead next cuts nothing off: it has all, on its disk."""
        for replica in isr:
            log = self.hosts[replica].log
            assert isinstance(log, FlushedLog)
            if replica != host.id:
                must(log.records[: log.kept][: len(host.log.records)] == host.log.records, f"{replica} lacks records")


def _answer(code: ErrorCode) -> Answer:
    if not code:
        return Answer.MADE
    return Answer.CHANGED if code in ELSEWHERE else Answer.REFUSED
