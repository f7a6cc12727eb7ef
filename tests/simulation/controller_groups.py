"""Storage groups as the controller meets them: their voters elect, and leaders claim, early, late and again.

What must hold of their partitions after every decision:

* who leads was elected by the voters and has claimed, or nobody leads
* replicas come in sync by a claim alone, and somebody always is; there are no eligible leaders
* replicas stay, and a voter keeps its directory
* a controller that has heard of an epoch believes no earlier one
"""

from random import Random

from tests.simulation.controller_brokers import UNKNOWN, SimulatedBroker

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import NO_LEADER, STORAGE_GROUPS
from penstock.protocol.own_apis import ClaimStorageGroupRequest


class SimulatedGroups:
    """Who was elected in each epoch of each group's log."""

    def __init__(self, random: Random, brokers: list[SimulatedBroker]) -> None:
        self._random = random
        self._brokers = {broker.id: broker for broker in brokers}
        self._leaders: dict[int, list[int]] = {}

    def elect(self, image: ClusterImage) -> None:
        """The voters of some group have another leader."""
        if image.storage_groups:
            self._elect(image, self._random.choice(list(image.storage_groups)))

    def claim(self, image: ClusterImage) -> ClaimStorageGroupRequest | None:
        """A leader claims its group; now and then it is not the leader any more."""
        if not self._leaders:
            return None
        number = self._random.choice(list(self._leaders))
        epoch = len(self._leaders[number]) - 1
        if self._random.random() < 0.3:
            epoch = self._random.randrange(epoch + 1)
        broker = self._brokers[self._leaders[number][epoch]]
        replicas = image.storage_groups[number].replicas
        caught_up = self._random.sample(replicas, self._random.randrange(len(replicas) + 1))
        is_up = broker.incarnation is not None and broker.epoch != UNKNOWN
        return self._request(number, epoch, broker, caught_up) if is_up else None

    def heal(self, image: ClusterImage) -> list[ClaimStorageGroupRequest]:
        """All is well: each group has a leader, which claims it, and all that have their disks have caught up."""
        claims = []
        for number, group in image.storage_groups.items():
            able = self._able(group)
            leaders = self._leaders.get(number, [])
            if able and (not leaders or leaders[-1] not in able):
                self._elect(image, number)
            if able:
                leaders = self._leaders[number]
                claims.append(self._request(number, len(leaders) - 1, self._brokers[leaders[-1]], able))
        return claims

    def healed(self, image: ClusterImage) -> str:
        """What is wrong once all is well; nothing if all is right."""
        for number, group in image.storage_groups.items():
            able = self._able(group)
            if not able:
                continue  # all voters have lost their disks, and nobody will ever lead
            for topic in image.topics_of_storage_group(number):
                for index, partition in topic.partitions.items():
                    if (partition.leader, set(partition.isr)) != (group.leader, set(group.isr)):
                        return f"{topic.name}-{index} is {partition}, and its group {group}"
            if (group.leader, set(group.isr)) != (self._leaders[number][-1], set(able)):
                return f"group {number} is {group}, and {able} are there"
        return ""

    def _able(self, group: PartitionImage) -> list[int]:
        """The voters that run and have their disks."""
        return [
            replica
            for replica in group.replicas
            if self._brokers[replica].incarnation is not None
            and group.directory_of(replica) in self._brokers[replica].directories
        ]

    def _elect(self, image: ClusterImage, number: int) -> None:
        able = self._able(image.storage_groups[number])
        if able:
            self._leaders.setdefault(number, []).append(self._random.choice(able))

    def _request(
        self, number: int, epoch: int, broker: SimulatedBroker, caught_up: list[int]
    ) -> ClaimStorageGroupRequest:
        return ClaimStorageGroupRequest(
            broker_id=broker.id, broker_epoch=broker.epoch, group=number, group_epoch=epoch, caught_up=caught_up
        )


def wrong_in_group(
    topic: str, before: PartitionImage, after: PartitionImage, claim: ClaimStorageGroupRequest | None
) -> str:
    """What is wrong with a change of a partition; nothing if it is right."""
    if after.leader not in (before.leader, NO_LEADER) and (claim is None or after.leader != claim.broker_id):
        return "leads without a claim"
    if not set(after.isr) <= set(before.isr) and claim is None:
        return "in sync without a claim"
    if not after.isr or after.eligible_leader_replicas or after.last_known_elr:
        return "nobody is in sync, or somebody is eligible"
    if after.replicas != before.replicas or (topic == STORAGE_GROUPS and after.directories != before.directories):
        return "the voters have changed"
    return ""
