"""What must hold of the cluster's metadata after every decision.

* the leader is in sync, or there is none; who is in sync is a replica, and somebody always is
* epochs of brokers, of leaders and of partitions only grow, by what Kafka says that they grow
* who is not in sync leads only where loss was allowed, and has to recover
* who is an eligible leader has all that is committed
* whatever course a move takes, where it began stays known: a cancellation leads there
* limits of moves last as long as anything is on the move
* no new replica goes to a broker all of whose directories are cordoned
* blocks of producer ids are disjoint

And once nothing is left to do:

* a leader may lead, or nobody else who is in sync could; then it is on its way out, or will be back in a moment
* where anybody in sync may lead, somebody does, and the brokers of all in sync are active
* nobody has been silent for a whole session without being fenced
"""

from uuid import UUID

from tests.simulation.controller_groups import wrong_in_group
from tests.simulation.controller_holders import Holders

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.controller import Controller
from penstock.controller.eligible_leaders import MIN_ISR, keeps_track
from penstock.controller.partition_change import UNCLEAN_LEADER_ELECTION, Electorate
from penstock.controller.upkeep import UNTIL_MOVED
from penstock.metadata.image import ClusterImage, ConfigResource, PartitionImage, ResourceType
from penstock.metadata.partition_index import Partitions, Place, each
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest


class InvariantError(AssertionError):
    """An invariant does not hold."""


def must(condition: bool, *what: object) -> None:
    if not condition:
        raise InvariantError(" ".join(map(str, what)))


class Invariants:
    def __init__(self) -> None:
        self.partitions: dict[tuple[UUID, int], PartitionImage] = {}
        self.broker_epochs: dict[int, int] = {}
        self.producer_id_blocks: dict[int, int] = {}
        self.holders = Holders()
        self.needed: dict[tuple[UUID, int], int] = {}
        self.is_limited = False

    def decided(
        self,
        image: ClusterImage,
        *,
        is_unclean: bool = False,
        by_leader: bool = False,
        lost: int | None = None,
        claim: ClaimStorageGroupRequest | None = None,
    ) -> None:
        """Looks at everything after a decision: an unclean election that was asked for, a change of the ISR by a
        leader, the registration of a broker that had crashed, the claim of a storage group, or another one.
        """
        tracks = keeps_track(image)
        if lost is not None:
            self.holders.lose(lost)
        for broker in image.brokers.values():
            must(broker.epoch >= self.broker_epochs.get(broker.node_id, -1), f"broker {broker.node_id}: older epoch")
            self.broker_epochs[broker.node_id] = broker.epoch
        self._limit(image)
        now: dict[tuple[UUID, int], PartitionImage] = {}
        for topic in image.topics.values():
            careless = image.config_of(ResourceType.TOPIC, topic.name).get(UNCLEAN_LEADER_ELECTION) == "true"
            for index, partition in topic.partitions.items():
                key = topic.topic_id, index
                now[key] = partition
                before = self.partitions.get(key)
                needed = _needed(image, topic.name, partition)
                if partition is before and self.needed.get(key) == needed:
                    continue
                self.needed[key] = needed
                name = f"{topic.name}-{index}: {before} {partition}"
                self._shape(name, partition, tracks)
                if topic.name == STORAGE_GROUPS or not topic.by_consensus:
                    self._place(name, image, before, partition)
                if before is not None and partition is not before:
                    self._change(name, before, partition)
                    wrong = (
                        wrong_in_group(topic.name, before, partition, claim)
                        if topic.by_consensus
                        else _unclean(before, partition, may_be=careless or is_unclean or by_leader)
                    )
                    must(not wrong, wrong, name)
                if tracks and not topic.by_consensus:
                    broken = self.holders.decided(key, before, partition, needed, by_leader=by_leader)
                    must(not broken, broken, name)
        self.partitions = now
        if not tracks:
            self.holders.trust(image)

    def rewound(self, image: ClusterImage, holders: Holders) -> None:
        """A new controller begins from what is committed, which may be less than what the old one had decided."""
        self.holders = holders.copy()
        self.is_limited = UNTIL_MOVED in image.config_of(ResourceType.BROKER, "")
        self.needed.clear()
        self.partitions = {
            (topic.topic_id, index): partition
            for topic in image.topics.values()
            for index, partition in topic.partitions.items()
        }
        self.broker_epochs = {broker.node_id: broker.epoch for broker in image.brokers.values()}

    def isr_changed(self, image: ClusterImage, request: AlterPartitionRequest) -> None:
        """A change that a leader asked for was made; `image` is what was decided upon."""
        must(image.brokers[request.broker_id].epoch == request.broker_epoch, "an earlier life changes the ISR", request)
        for topic in request.topics:
            for replica in (state for p in topic.partitions for state in p.new_isr_with_epochs):
                broker = image.brokers.get(replica.broker_id)
                must(broker is not None and broker.active, f"{replica.broker_id} comes in sync and is not active")
                assert broker is not None
                known = replica.broker_epoch in (broker.epoch, -1)
                must(known, f"{replica.broker_id} comes in sync for an earlier life of its broker")

    def allocated(self, first: int, length: int) -> None:
        """A broker got a block of producer ids."""
        for start, size in self.producer_id_blocks.items():
            must(first + length <= start or start + size <= first, f"producer ids {first} twice")
        self.producer_id_blocks[first] = length

    def _shape(self, name: str, p: PartitionImage, tracks: bool) -> None:
        known = p.isr or (p.leader == NO_LEADER and (p.eligible_leader_replicas or p.last_known_elr))
        must(bool(known), f"nobody is in sync: {name}")
        must(not set(p.eligible_leader_replicas) & set(p.isr), f"in sync and eligible: {name}")
        known_only = (*p.eligible_leader_replicas, *p.last_known_elr)
        must(set(known_only) <= set(p.replicas), f"eligible without being a replica: {name}")
        must(set(p.isr) <= set(p.replicas), f"in sync without being a replica: {name}")
        must(p.leader == NO_LEADER or p.leader in p.isr, f"the leader is not in sync: {name}")
        must(len(set(p.replicas)) == len(p.replicas) == len(p.directories), f"replicas: {name}")
        must(set(p.adding_replicas) | set(p.removing_replicas) <= set(p.replicas), f"on the move: {name}")

    def _limit(self, image: ClusterImage) -> None:
        is_limited = UNTIL_MOVED in image.config_of(ResourceType.BROKER, "")
        must(is_limited or not self.is_limited or not image.index.reassigning, "limits ended before the moves")
        self.is_limited = is_limited

    def _place(self, name: str, image: ClusterImage, before: PartitionImage | None, after: PartitionImage) -> None:
        present = () if before is None else before.replicas
        for replica in after.replicas:
            must(
                replica in present or image.brokers[replica].takes_replicas,
                f"{replica} takes no new replicas and got one: {name}",
            )

    def _change(self, name: str, before: PartitionImage, after: PartitionImage) -> None:
        must(after.partition_epoch > before.partition_epoch, f"the partition epoch does not grow: {name}")
        must(after.leader_epoch >= before.leader_epoch, f"the leader epoch falls: {name}")
        new_epoch = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
        must(not new_epoch or after.leader_epoch > before.leader_epoch, f"no new leader epoch: {name}")
        is_moving = bool(after.adding_replicas or after.removing_replicas)
        must(not is_moving or _origin(after) == _origin(before), f"a move forgets where it began: {name}")


def _origin(p: PartitionImage) -> set[int]:
    """Where the move under way began; without one, where the partition is."""
    return set(p.replicas) - set(p.adding_replicas)


def _unclean(before: PartitionImage, after: PartitionImage, *, may_be: bool) -> str:
    clean = after.leader in (NO_LEADER, *before.isr, *before.eligible_leader_replicas)
    clean = clean or before.last_known_elr == (after.leader,)
    return "" if clean or may_be else "unclean:"


def _needed(image: ClusterImage, topic: str, partition: PartitionImage) -> int:
    needed = DefinedConfigs({}).value_of(image, ConfigResource(ResourceType.TOPIC, topic), MIN_ISR)
    return min(int(needed or 1), len(partition.replicas))


def settled(controller: Controller, silent: dict[int, int], told: set[int], now_ms: int) -> None:
    """Once nothing is left to do. `silent` says since when a broker has not been heard, by this controller; `told` are
    those that have said which of their directories are offline.
    """
    image = controller.image
    electorate = Electorate(controller.state)
    for topic in image.topics.values():
        for index, p in topic.partitions.items():
            known = p.isr or p.eligible_leader_replicas or (p.last_known_elr if len(p.last_known_elr) == 1 else ())
            able = [replica for replica in known if replica in p.replicas and electorate.may_lead(p, replica)]
            is_known = p.leader in told or not electorate.is_active(p.leader)
            if topic.by_consensus:
                leads = image.brokers.get(p.leader)
                must(p.leader == NO_LEADER or (leads is not None and not leads.fenced), "fenced and leads:", topic, p)
                continue
            must(not able or p.leader in able or not is_known, "another one could lead:", topic.name, index, p, able)
            gone = [replica for replica in p.isr if replica not in image.brokers or not image.brokers[replica].active]
            must(not able or not gone, "in sync and not active:", gone, topic.name, index, p)
    for broker in image.brokers.values():
        since = silent.get(broker.node_id)
        session_ms = controller.state.settings.broker_session_timeout_ms
        must(broker.fenced or since is None or now_ms < since + session_ms, f"broker {broker.node_id} is silent")
    _check_index(image)


def _check_index(image: ClusterImage) -> None:
    every = [(topic.name, i, p) for topic in image.topics.values() for i, p in topic.partitions.items()]
    for broker_id in {replica: None for _, _, p in every for replica in p.replicas}:
        _same(image.index.in_sync(broker_id), [(name, i) for name, i, p in every if broker_id in p.isr])
        eligible = [(name, i) for name, i, p in every if broker_id in p.eligible_leader_replicas]
        _same(image.index.eligible(broker_id), eligible)
    _same(image.index.leaderless, [(name, i) for name, i, p in every if p.leader == NO_LEADER])
    _same(image.index.reassigning, [(name, i) for name, i, p in every if p.adding_replicas or p.removing_replicas])
    by_isr = [(name, i, p) for name, i, p in every if not image.topics[name].by_consensus]
    with_preferred = [(name, i, p) for name, i, p in every if image.topics[name].storage_group is None]
    moved = [(name, i) for name, i, p in with_preferred if p.leader not in (NO_LEADER, p.replicas[0])]
    _same(image.index.moved, moved)
    behind: dict[Place, list[tuple[str, int]]] = {}
    for name, i, p in by_isr:
        for replica in p.replicas:
            if replica not in p.isr:
                behind.setdefault((replica, p.directory_of(replica)), []).append((name, i))
    must(behind.keys() == image.index.behind.keys(), "the index names other places where replicas are behind")
    for place, expected in behind.items():
        _same(image.index.behind[place], expected)
    for broker_id in image.index.preferred_brokers():
        preferred = [(name, i) for name, i, p in with_preferred if p.replicas[0] == broker_id]
        _same(image.index.preferred(broker_id), preferred)


def _same(partitions: Partitions, expected: list[tuple[str, int]]) -> None:
    must(sorted(each(partitions)) == sorted(expected), "the index is not what a look at all partitions finds")
