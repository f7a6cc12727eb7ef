"""What must hold of the replicas of a partition after every event.

* an epoch has one leader, and its high watermark never goes back
* whoever knows a high watermark has the same records before it as everybody else ever had
* who is in sync has all that was ever committed
* who comes in sync does so in the life of its broker that told how far it is
* who the high watermark waits for is not held back by a limit of replication, unless it missed what it was told
* what was acknowledged with acks=all, or read by a consumer, is committed, and stays
* while too few replicas are in sync nothing is acknowledged with acks=all, so that no answer has to say so afterwards
"""

from collections.abc import Mapping, Sequence

from tests.simulation.replication_hosts import Host
from tests.simulation.replication_log import Record

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.replication.partition_leader import PartitionLeader


class InvariantError(AssertionError):
    """An invariant does not hold."""


def must(condition: bool, what: str) -> None:
    if not condition:
        raise InvariantError(what)


class Invariants:
    def __init__(self) -> None:
        self.committed: list[Record] = []
        self.leaders: dict[int, int] = {}
        self.acknowledgements = 0
        self._high_watermarks: dict[int, int] = {}

    def look(self, hosts: Mapping[int, Host], newest: PartitionImage | None) -> None:
        for host in hosts.values():
            partition = host.partition
            if not host.is_up or partition is None:
                continue
            high_watermark = partition.high_watermark
            if high_watermark > host.log.log_end_offset:
                raise InvariantError(f"{host.id} ends before its high watermark")
            if partition.leader is not None:
                self._lead(host, partition.leader_epoch, high_watermark)
                self._wait(hosts, partition.leader)
            self._compare(host, min(high_watermark, len(self.committed)))
        end = len(self.committed)
        for replica in () if newest is None else newest.isr:
            host = hosts[replica]
            if host.log.log_end_offset < end:
                raise InvariantError(f"{replica} is in sync, ends at {host.log.log_end_offset}; {end} is committed")
            self._compare(host, end)

    def _compare(self, host: Host, end: int) -> None:
        log = host.log
        if log.checked < end:
            if log.records[log.checked : end] != self.committed[log.checked : end]:
                raise InvariantError(f"{host.id} has other records than are committed")
            log.checked = end

    @staticmethod
    def _wait(hosts: Mapping[int, Host], leader: PartitionLeader) -> None:
        for replica, state in leader.followers.items():
            host = hosts[replica]
            follower = None if host.partition is None else host.partition.follower
            if follower is None or not host.is_up or not leader.waits_for(replica):
                continue
            is_heard_of = follower.leader_epoch == leader.leader_epoch and state.broker_epoch == host.epoch
            if is_heard_of and host.may_rest and host.under_way is None and not host.missed_an_answer:
                raise InvariantError(f"{replica} may be held back while {leader.node_id} waits for it")

    def _lead(self, host: Host, epoch: int, high_watermark: int) -> None:
        if self.leaders.setdefault(epoch, host.id) != host.id:
            raise InvariantError(f"two lead epoch {epoch}")
        before = self._high_watermarks.get(epoch, 0)
        if high_watermark < before:
            raise InvariantError(f"the high watermark of epoch {epoch} was {before} and is {high_watermark}")
        self._high_watermarks[epoch] = high_watermark
        if high_watermark > len(self.committed):
            self.committed += host.log.records[len(self.committed) : high_watermark]

    def altered(self, image: ClusterImage, request: AlterPartitionRequest) -> None:
        """The controller took over who is in sync."""
        for replica in request.topics[0].partitions[0].new_isr_with_epochs:
            epoch = image.brokers[replica.broker_id].epoch
            must(replica.broker_epoch in (-1, epoch), f"{replica.broker_id} came in sync in a life that is over")

    def acknowledged(self, offset: int, value: str) -> None:
        """A producer was told so, by a leader whose high watermark has passed it."""
        self.acknowledgements += 1
        if offset < len(self.committed):  # else it becomes part of that at the end of this event
            must(self.committed[offset][1] == value, f"{value} was acknowledged at {offset}, and is not there")

    def read(self, records: Sequence[Record]) -> None:
        """A consumer was given this."""
        known = min(len(records), len(self.committed))
        must(list(records[:known]) == self.committed[:known], "a consumer was given what is not committed")
