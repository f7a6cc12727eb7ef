"""Keeps this node's replicas of storage groups as the committed metadata want them.

| what happens                                | what follows                                                          |
| ------------------------------------------- | --------------------------------------------------------------------- |
| a group has a replica here                  | its log is opened, and it takes part                                  |
| its log, or one of its partitions', is bad  | one error is logged; it is not there, and others go on                |
| a disk takes nothing, and is not offline    | the same, and it is tried again: there may be room                    |
| a disk has lost what a group has forgotten  | that is copied from other replicas before it takes part               |
| a log directory fails                       | the groups that have anything in it take part no longer               |
| a topic comes into a group, or is deleted   | the group's leader says so in the group's log                         |
| a group begins to lead here                 | it claims the lead at the controller, until the metadata name it      |
| the disk of a group hangs                   | the group waits for it, begun or ended, and no other group does       |
| this broker is cut off from the controllers | a voter that knows that there is no leader any more gets the lead     |
| a group has no replica here any more        | it ends; its logs are deleted later, and those of its partitions      |
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from penstock.log.config import LogConfig
from penstock.metadata.image import PartitionImage, TopicImage
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from penstock.metadata.topics import NO_LEADER
from penstock.node.environment.tasks import Tasks
from penstock.node.storage_groups.failed_replicas import FailedReplicas
from penstock.node.storage_groups.group_metrics import register_groups
from penstock.node.storage_groups.partition_logs import PartitionLogs
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import ClaimStorageGroupResponse
from penstock.raft.log_name import LogName

if TYPE_CHECKING:
    from penstock.node.controlling.broker_context import BrokerContext
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.links import GroupLinks
    from penstock.node.storage_groups.replica import GroupReplica

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""How often groups that lead here are looked at: which replicas have caught up, and how long the logs are."""
HAND_OVER_S: Final = 5
"""How long a node that stops hands over the groups that it leads; what it leads then it resigns."""
AT_ONCE: Final = 4
"""Groups that it hands over at the same time."""
RESIGN_S: Final = 1
"""How long it waits until the metadata name others: each group has another leader by then, or cannot have one."""
RESIGN_LOOK_S: Final = 0.01
START_S: Final = 30
"""How long a start waits for its groups: on other disks than theirs, the node has work to do."""
SNAPSHOTS_AT_ONCE: Final = 2
"""In one log directory: half of its threads are left for votes, and for what is to be committed."""


class GroupHost(Protocol):
    def config_of(self, topic: str) -> LogConfig: ...

    def links(self) -> GroupLinks:
        """New connections to other replicas, which are closed with the groups."""

    async def hand_over_group(self, group: StorageGroup, successor: int) -> bool:
        """Returns when the other voter leads, or it is clear that it will not."""

    def on_group(self, topic_id: UUID, index: int) -> None:
        """A partition is in its group here from now on, or is not any more."""


class GroupKeeper:
    def __init__(self, context: BrokerContext, groups: StorageGroups, host: GroupHost) -> None:
        self._context = context
        self._image = context.image
        self._node_id = context.node_id
        self._groups = groups
        self._host = host
        self._logs = PartitionLogs(context.node, host.config_of)
        self._links: GroupLinks | None = None
        self._changed: dict[int, None] = {}
        self._new: dict[int, None] = {}
        """Groups that have come into being while this node was running, and have not had a replica here yet."""
        self._is_leaving = False
        self._wake = asyncio.Event()
        self._failed = FailedReplicas(self._wake.set)
        self._due: dict[int, None] = {}
        """Replicas that have failed, and are to be tried again."""
        self._settling: dict[int, None] = {}
        """Groups that a task of their own begins or ends just now; their next change waits for its end."""
        self._tasks = Tasks()
        self._changes = Tasks()  # those of `_settling`; none is cancelled, as threads use the files of its group
        self._stopping = Tasks()
        register_groups(context.node.metrics, self._running, self._count_offline)

    # Life.

    async def start(self) -> None:
        """The image is not older than what this node has known: the controller knows of this start."""
        groups, logs = self._image.storage_groups, self._context.node.directories.logs
        for number in [number for topic, number in logs if topic == STORAGE_GROUPS]:
            if number in groups and self._node_id not in groups[number].replicas:
                self._logs.delete_left(logs[STORAGE_GROUPS, number])
        self.on_new_image()
        self._follow()
        await self._changes.settle(START_S)
        self._tasks.keep(self._work, "storage groups")

    async def resign(self, *, hand_over: bool) -> None:
        """Lead none any more: others shall, before this node stops. What cannot be handed over is resigned, and where
        there are enough others that one of them could be elected the metadata get a while to name it.
        """
        self._is_leaving = True
        if hand_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_OVER_S):
                    few = asyncio.Semaphore(AT_ONCE)
                    await asyncio.gather(*(self._give_away(replica, few) for replica in self._running()))
        for replica in self._running():
            replica.quorum.resign()
        until_s = asyncio.get_running_loop().time() + (RESIGN_S if hand_over else 0)
        while any(map(self._awaits_successor, self._running())) and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(RESIGN_LOOK_S)

    async def _give_away(self, replica: GroupReplica, few: asyncio.Semaphore) -> None:
        """To one of the voters that were heard lately, the first of them in the order of preference that takes it."""
        async with few:
            with suppress(KafkaError):  # it leads no longer
                for successor in self._image.storage_groups[replica.number].replicas:
                    if replica.leads and successor in self._heard(replica):
                        await self._host.hand_over_group(replica.group, successor)

    def _heard(self, replica: GroupReplica) -> set[int]:
        """The other voters that have caught up, and that no follower would have given up yet in the leader's place."""
        live = [broker.node_id for broker in self._image.brokers.values() if broker.active]
        within_ms = self._context.config.controller_quorum_fetch_timeout_ms
        return {*replica.caught_up(within_ms, live)} - {self._node_id}

    def _awaits_successor(self, replica: GroupReplica) -> bool:
        """Whether the metadata name this node still, and will name another one."""
        image, brokers = self._image.storage_groups[replica.number], self._image.brokers
        others = [one for one in image.isr if one != self._node_id and one in brokers and brokers[one].active]
        return image.leader == self._node_id and len(others) * 2 > len(image.replicas)

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._changes.settle()
        await self._failed.stop()
        replicas = list(self._groups.by_number.values())
        self._groups.by_topic.clear()
        await asyncio.gather(*map(self._leave, replicas), self._stopping.settle())
        if self._links is not None:
            await self._links.close()

    def _running(self) -> list[GroupReplica]:
        return [replica for replica in self._groups.by_number.values() if replica.is_running]

    def _count_offline(self) -> int:
        here = [it for it in {*self._failed, *self._settling, *self._groups.by_number} if not self._is_elsewhere(it)]
        return len(here) - sum(replica.number in here for replica in self._running())

    # The metadata.

    def on_metadata(self, records: Iterable[MetadataRecord]) -> None:
        groups = self._image.topics.get(STORAGE_GROUPS)
        if groups is None:
            return
        for record in records:
            match record:
                case PartitionRecord() | PartitionChangeRecord() if record.topic_id == groups.topic_id:
                    if isinstance(record, PartitionRecord) and self._node_id in record.replicas:
                        self._new[record.partition_id] = None
                    self._note(record.partition_id)
                case PartitionRecord():
                    self._enter(self._image.topics_by_id.get(record.topic_id))
                case ConfigRecord():  # a topic may get its group after its partitions
                    self._enter(self._image.topics.get(record.resource_name))
                case RemoveTopicRecord():
                    self._forget(record.topic_id)

    def on_new_image(self) -> None:
        for topic_id in [one for one in self._groups.by_topic if one not in self._image.topics_by_id]:
            self._forget(topic_id)
        for number in self._image.storage_groups:
            self._note(number)
            for topic in self._image.topics_of_storage_group(number):
                self._enter(topic)

    def _note(self, number: int) -> None:
        self._changed[number] = None
        self._wake.set()

    def _enter(self, topic: TopicImage | None) -> None:
        """A topic may have come into a group, or has more partitions."""
        if topic is None or topic.storage_group is None:
            return
        self._note(topic.storage_group)
        replica = self._groups.by_number.get(topic.storage_group)
        if replica is not None and topic.topic_id not in self._groups.by_topic:
            self._groups.by_topic[topic.topic_id] = replica
            for index in topic.partitions:
                if replica.group.member(topic.topic_id, index) is not None:  # the group was ahead of the metadata
                    self._host.on_group(topic.topic_id, index)

    def _forget(self, topic_id: UUID) -> None:
        replica = self._groups.by_topic.pop(topic_id, None)
        if replica is not None:
            for log in replica.group.forget(topic_id):
                self._logs.remove(log)
            self._note(replica.number)

    # Work.

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._groups.by_number or self._failed else None):
                    await self._wake.wait()
            self._wake.clear()
            try:
                self._try_again()
                self._follow()
                self._keep_short()
                for replica in self._running():
                    self._look_at(replica)
            except Exception:
                logger.exception("storage groups could not be looked at")

    def _follow(self) -> None:
        """Each group by itself: one whose disk hangs keeps no other waiting."""
        for number in [one for one in self._changed if one not in self._settling]:
            del self._changed[number]
            self._settling[number] = None
            self._changes.start(self._settle(number), f"storage group {number} as the metadata want it")

    async def _settle(self, number: int) -> None:
        try:
            is_due = number in self._due
            self._due.pop(number, None)
            if self._is_elsewhere(number):
                await self._depart(number, is_due=is_due)
            elif is_due:
                await self._end_failed(number)
            image = self._missing(number)
            if image is not None:
                await self._take_part(number, image)
            replica = self._groups.by_number.get(number)
            if replica is not None:
                replica.sort_out(self._image.topics_of_storage_group(number), self._image.offset)
        finally:
            del self._settling[number]
            if number in self._changed or number in self._failed:
                self._wake.set()

    def _is_elsewhere(self, number: int) -> bool:
        """Whether the group has no replica here, or none any more."""
        image = self._image.storage_groups.get(number)
        return image is not None and self._node_id not in image.replicas

    async def _depart(self, number: int, *, is_due: bool) -> None:
        """Others vote by now, and a majority of them has agreed: what is deleted is not needed. It is kept for a while:
        where the replica is on its way back already, its leader may know that first, and give this one the vote.
        """
        replica = self._groups.by_number.get(number)
        if replica is None:
            self._failed.forget(number)
            return
        if not is_due:
            if replica.is_running:
                await self._leave(replica)
            self._failed.put_off(number)
            return
        self._disown(replica)
        await self._leave(replica)
        for log in replica.logs():
            self._logs.delete(log)
        for left in replica.group.closed.values():
            self._logs.remove(left.log)
        logger.info("this node has no replica of storage group %d any more", number)

    def _disown(self, replica: GroupReplica) -> None:
        del self._groups.by_number[replica.number]
        for topic_id in [one for one, its in self._groups.by_topic.items() if its is replica]:
            del self._groups.by_topic[topic_id]

    def _missing(self, number: int) -> PartitionImage | None:
        image = self._image.storage_groups.get(number)
        is_known = number in self._groups.by_number or number in self._failed
        return None if image is None or is_known or self._node_id not in image.replicas else image

    async def _take_part(self, number: int, image: PartitionImage) -> None:
        # A node without groups starts without the code for them.
        from penstock.node.storage_groups.copying import LostRecordsError, copy_lost
        from penstock.node.storage_groups.start import start_replica

        if self._links is None:
            self._links = self._host.links()
        name = LogName(STORAGE_GROUPS, self._image.topics[STORAGE_GROUPS].topic_id, number)
        try:
            replica = await start_replica(
                name, image, self._context.node, self._logs, self._links, is_new=number in self._new
            )
        except Exception as error:
            self._failed.add(number, error)
            self._failed.complain(number, error)
            others = [node_id for node_id in image.replicas if node_id != self._node_id]
            if isinstance(error, LostRecordsError) and others:
                logs = self._logs
                work = partial(copy_lost, error.lacking, others, self._links.copy, logs.is_removed, logs.threads_of)
                self._failed.heal(number, work)
            return
        self._failed.forget(number, takes_part=True)
        self._new.pop(number, None)
        self._groups.by_number[number] = replica
        replica.group.lead_changed.listen(partial(self._lead_changed, replica))
        replica.group.member_changed.listen(lambda partition: self._host.on_group(*partition))
        replica.quorum.on_failure.listen(partial(self._failed_later, replica))
        for topic in self._image.topics_of_storage_group(number):
            self._enter(topic)

    def _lead_changed(self, replica: GroupReplica) -> None:
        claiming, replica.claiming = replica.claiming, None
        if claiming is not None:
            claiming.cancel()  # it was about another lead
        self._note(replica.number)

    def _failed_later(self, replica: GroupReplica, error: Exception) -> None:
        """The replica's driver has given up, and has logged why."""
        logger.error("this node takes part in storage group %d no longer", replica.number)
        self._failed.add(replica.number, error)
        self._ended(replica)

    def _try_again(self) -> None:
        """Let replicas that failed a while ago be taken for new; what they promised is on the disk, and what a disk
        that is online has refused is not. One whose group has left goes, be its disk offline: it may come back to
        another one.
        """
        for number in self._failed.take_due():
            replica = self._groups.by_number.get(number)
            logs = [] if replica is None else replica.logs()
            if self._is_elsewhere(number) or all(log.health.failure is None for log in logs):
                self._due[number] = self._changed[number] = None

    async def _end_failed(self, number: int) -> None:
        replica = self._groups.by_number.get(number)
        if replica is not None:
            await self._leave(replica)
            self._disown(replica)

    def _ended(self, replica: GroupReplica) -> None:
        replica.group.ended()
        for partition in list(replica.group.partitions):
            self._host.on_group(*partition)

    def _keep_short(self) -> None:
        """The longest logs first: a snapshot syncs all that the partitions got, and groups that get as much need one
        at the same time.
        """
        running = sorted(self._running(), key=lambda replica: -replica.group.bytes_since_snapshot)
        writing = Counter(one.own_log.parent for one in running if one.writes_snapshot)
        for replica in running:
            if writing[replica.own_log.parent] < SNAPSHOTS_AT_ONCE:
                writing[replica.own_log.parent] += replica.keep_short()

    def _look_at(self, replica: GroupReplica) -> None:
        if not replica.leads or self._is_leaving:
            return
        within_ms = self._context.config.replica_lag_time_max_ms
        image = self._image.storage_groups[replica.number]
        wanted = [one for one in image.replicas if one not in image.removing_replicas]
        if image.leader == self._node_id:  # so that no claim of an earlier leader can end this move any more
            replica.change_voters(wanted, within_ms)
        if self._context.lease.is_unheard:
            self._cut_off(replica, image)
        elif replica.claiming is None:
            self._claim(replica, within_ms)

    # The lead.

    def _claim(self, replica: GroupReplica, within_ms: int) -> None:
        """Tell the controller the leader, the voters and the replicas that have caught up, if the metadata differ."""
        claim = replica.claim(self._image, self._node_id, within_ms)
        if claim is None:
            return
        request = claim.replace(broker_id=self._node_id, broker_epoch=self._context.broker_epoch)
        claiming = replica.claiming = self._context.controller.submit(request, ClaimStorageGroupResponse)
        claiming.add_done_callback(lambda done: self._claimed(replica, done))

    def _claimed(self, replica: GroupReplica, done: asyncio.Future[ClaimStorageGroupResponse]) -> None:
        """If the claim was refused, the next look claims again, as long as the metadata do not name this node."""
        if replica.claiming is done:
            replica.claiming = None
        if done.cancelled():
            return
        error = done.exception()
        code = done.result().error_code if error is None else None
        if error is not None and not isinstance(error, KafkaError):
            logger.error("the lead of %s could not be claimed", replica.log, exc_info=error)
        elif code != ErrorCode.NONE:
            why = str(error) if code is None else ErrorCode(code).name
            logger.info("the lead of %s could not be claimed: %s", replica.log, why)

    def _cut_off(self, replica: GroupReplica, image: PartitionImage) -> None:
        """No controller hears that this node leads: give the lead to a voter that controllers hear."""
        if replica.leaving is None or replica.leaving.done():
            work = self._leave_to_others(replica, image)
            replica.leaving = self._tasks.start(work, f"who leads {replica.log} instead")

    async def _leave_to_others(self, replica: GroupReplica, image: PartitionImage) -> None:
        """A voter whose metadata are newer, and name no leader, can claim. Where there is none, no controller may be
        left: then this node leads on, as the metadata say everywhere.
        """
        links = self._links
        assert links is not None, "there are groups"
        for successor in image.replicas:
            with suppress(KafkaError):  # it leads no longer, or that voter does not answer
                if successor not in self._heard(replica):
                    continue
                leader_id, leader_epoch = await links.signpost(successor, replica.number)
                if leader_id == NO_LEADER and leader_epoch > image.leader_epoch and self._context.lease.is_unheard:
                    logger.info("no controller hears this node: %s goes to %d", replica.log, successor)
                    await self._host.hand_over_group(replica.group, successor)

    # Disks.

    def on_directory_failed(self, path: str) -> None:
        """What lies in this log directory is lost to this node."""
        for replica in self._running():
            if replica.lies_in(path):
                logger.error("this node takes part in storage group %d no longer: %s is offline", replica.number, path)
                self._stopping.start(self._leave(replica), f"stop of {replica.log}")

    async def _leave(self, replica: GroupReplica) -> None:
        try:
            await replica.stop()
        except Exception:
            logger.exception("storage group %d could not be stopped", replica.number)
        self._ended(replica)
