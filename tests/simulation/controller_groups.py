"""Storage groups as the controller meets them: their voters elect, and leaders claim, early, late and again.

What must hold of their partitions after every decision:

* who leads was elected by the voters and has claimed, or nobody leads
* replicas come in sync by a claim alone, and somebody always is; there are no eligible leaders
* whoever votes is a replica: a move adds replicas, and takes none away before a claim says that they do not vote
* a replica keeps its directory until a claim says that it votes with another one
* a controller that has heard of an epoch believes no earlier one
"""

from dataclasses import dataclass
from random import Random
from uuid import UUID

from tests.simulation.controller_brokers import UNKNOWN, SimulatedBroker

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, GroupVoter


@dataclass(slots=True)
class Term:
    """An epoch of a group's log: who leads, and who votes, with which directory."""

    leader: int
    voters: dict[int, UUID]


class SimulatedGroups:
    """Who was elected in each epoch of each group's log."""

    def __init__(self, random: Random, brokers: list[SimulatedBroker]) -> None:
        self._random = random
        self._brokers = {broker.id: broker for broker in brokers}
        self._terms: dict[int, list[Term]] = {}
        self._sent: list[ClaimStorageGroupRequest] = []

    def elect(self, image: ClusterImage) -> None:
        """The voters of some group have another leader."""
        if image.storage_groups:
            self._elect(image, self._random.choice(list(image.storage_groups)))

    def change_voters(self, image: ClusterImage) -> None:
        """The leader of some group takes a step to the voters that the metadata want."""
        if self._terms:
            self._step(image, self._random.choice(list(self._terms)))

    def claim(self, image: ClusterImage) -> ClaimStorageGroupRequest | None:
        """A leader claims its group; now and then an earlier claim comes late, or again."""
        if not self._terms:
            return None
        number = self._random.choice(list(self._terms))
        if self._sent and self._random.random() < 0.3:
            request = self._random.choice(self._sent)
        else:
            voters = list(self._terms[number][-1].voters)
            caught_up = self._random.sample(voters, self._random.randrange(len(voters) + 1))
            request = self._request(image, number, caught_up)
            self._sent.append(request)
        broker = self._brokers[request.broker_id]
        is_up = broker.incarnation is not None and broker.epoch != UNKNOWN
        return request.replace(broker_epoch=broker.epoch) if is_up else None

    def heal(self, image: ClusterImage) -> list[ClaimStorageGroupRequest]:
        """All is well: each group has a leader, which claims it, and all that have their disks have caught up."""
        claims = []
        for number in image.storage_groups:
            if self._able(image, number):
                if number not in self._terms or self._terms[number][-1].leader not in self._able(image, number):
                    self._elect(image, number)
                self._step(image, number)
                claims.append(self._request(image, number, self._able(image, number)))
        return claims

    def forgotten(self, image: ClusterImage) -> str:
        """A voter that is no replica would delete its log; nothing if there is none."""
        for number, terms in self._terms.items():
            group, voters = image.storage_groups.get(number), terms[-1].voters
            if group is not None and not voters.keys() <= set(group.replicas):
                return f"{list(voters)} vote in group {number}, which is {group}"
        return ""

    def healed(self, image: ClusterImage) -> str:
        """What is wrong once all is well; nothing if all is right."""
        for number, group in image.storage_groups.items():
            able = self._able(image, number)
            if not able:
                continue  # all voters have lost their disks, and nobody will ever lead
            for topic in image.topics_of_storage_group(number):
                for index, partition in topic.partitions.items():
                    if (partition.leader, set(partition.replicas), set(partition.isr)) != (
                        group.leader,
                        set(group.replicas),
                        set(group.isr),
                    ):
                        return f"{topic.name}-{index} is {partition}, and its group {group}"
            if (group.leader, set(group.isr)) != (self._terms[number][-1].leader, set(able)):
                return f"group {number} is {group}, and {able} are there"
            if dict(zip(group.replicas, group.directories, strict=True)) != self._terms[number][-1].voters:
                return f"group {number} is {group}, and there vote {self._terms[number][-1].voters}"
        return ""

    def _voters(self, image: ClusterImage, number: int) -> dict[int, UUID]:
        if number in self._terms:
            return self._terms[number][-1].voters
        group = image.storage_groups[number]
        return dict(zip(group.replicas, group.directories, strict=True))

    def _able(self, image: ClusterImage, number: int) -> list[int]:
        """The voters that run and have their disks."""
        return [
            voter
            for voter, directory in self._voters(image, number).items()
            if self._brokers[voter].incarnation is not None and directory in self._brokers[voter].directories
        ]

    def _elect(self, image: ClusterImage, number: int, without: int | None = None) -> None:
        voters = {one: directory for one, directory in self._voters(image, number).items() if one != without}
        able = [one for one in self._able(image, number) if one in voters]
        if able:
            self._terms.setdefault(number, []).append(Term(self._random.choice(able), voters))

    def _step(self, image: ClusterImage, number: int) -> None:
        """One gets a vote, or has none any more: the leader as the last of those that are to have none."""
        group, term = image.storage_groups.get(number), self._terms[number][-1]
        if group is None or group.leader != term.leader or term.leader not in self._able(image, number):
            return
        target = [replica for replica in group.replicas if replica not in group.removing_replicas]
        lost = [one for one, its in term.voters.items() if its not in self._brokers[one].directories]
        absent = [one for one in target if one not in term.voters]
        leaving = lost or ([one for one in term.voters if one not in target] if not absent else [])
        for one in absent:
            broker = self._brokers[one]
            if broker.incarnation is not None and broker.epoch != UNKNOWN:
                wanted = group.directory_of(one)
                term.voters[one] = wanted if wanted in broker.directories else broker.directories[0]
                return
        if leaving:
            one = min(leaving, key=lambda voter: voter == term.leader)
            if one == term.leader:
                self._elect(image, number, without=one)
            else:
                del term.voters[one]

    def _request(self, image: ClusterImage, number: int, caught_up: list[int]) -> ClaimStorageGroupRequest:
        term = self._terms[number][-1]
        return ClaimStorageGroupRequest(
            broker_id=term.leader,
            broker_epoch=self._brokers[term.leader].epoch,
            group=number,
            group_epoch=len(self._terms[number]) - 1,
            partition_epoch=image.storage_groups[number].partition_epoch,
            caught_up=caught_up,
            voters=[GroupVoter(voter_id=one, directory_id=directory) for one, directory in term.voters.items()],
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
    return _wrong_replicas(before, after, claim, is_group=topic == STORAGE_GROUPS)


def _wrong_replicas(
    before: PartitionImage, after: PartitionImage, claim: ClaimStorageGroupRequest | None, *, is_group: bool
) -> str:
    voters = {} if claim is None else {one.voter_id: one.directory_id for one in claim.voters}
    stay = set(before.replicas) & set(after.replicas)
    if stay != set(before.replicas) and (not voters or not voters.keys() <= set(after.replicas)):
        return "a replica is gone and no claim said that it does not vote"
    if stay != set(after.replicas) and is_group == (claim is not None):
        return "a replica joins, the group by a claim or what is in it without one"
    for replica in stay if is_group else ():
        directory = after.directory_of(replica)
        if directory not in (before.directory_of(replica), voters.get(replica)):
            return "a voter has another directory and no claim said so"
    return ""
