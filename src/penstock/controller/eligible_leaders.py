"""Eligible leader replicas: who beside those in sync has all that is committed, and so may lead when nobody else can.

While fewer replicas are in sync than `min.insync.replicas` asks for, the high watermark stands still. So a replica that
leaves the ISR then has all that is committed, and will have for as long as it loses nothing (KIP-966):

| what happens | eligible leaders |
| --- | --- |
| a replica leaves an ISR that is too small then | it is one |
| enough replicas are in sync again, or `min.insync.replicas` changes | none |
| a broker is back after an unclean shutdown, or its directory is offline | it is none any more |
| one of them leads, as the ISR is empty | it alone is in sync; the others go on being eligible |
| an unclean election | none |

With them the ISR may be empty, which it is as soon as there is no leader; then the last leader is remembered. It leads
again if there are no eligible leaders any more: perhaps with a loss, but with the smallest that can be hoped for.
"""

from collections.abc import Iterator

from penstock.controller.decision import ControllerState
from penstock.controller.heartbeats import Left
from penstock.metadata.features import ELIGIBLE_LEADER_REPLICAS
from penstock.metadata.image import ClusterImage, ConfigResource, PartitionImage, ResourceType
from penstock.metadata.topics import NO_LEADER

MIN_ISR = "min.insync.replicas"


def keeps_track(image: ClusterImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0


def could_lead(state: ControllerState, before: PartitionImage, after: PartitionImage, lost: int) -> tuple[int, ...]:
    """The replicas that have all that is committed, though not in sync; `lost` is a broker that may lack some."""
    known = dict.fromkeys((*before.eligible_leader_replicas, *_trusted(state, before.isr)))
    return tuple(
        replica for replica in known if replica in after.replicas and replica not in after.isr and replica != lost
    )


def tracked(
    state: ControllerState, topic: str, before: PartitionImage, after: PartitionImage, lost: int
) -> PartitionImage:
    """A partition whose leader and ISR are decided, with the eligible leaders and the last leader that it has then."""
    if after.leader != NO_LEADER:
        is_enough = len(after.isr) >= _needed(state, topic, after)
        eligible = () if is_enough else could_lead(state, before, after, lost)
        return after._replace(eligible_leader_replicas=eligible, last_known_elr=())
    last = after.last_known_elr
    if before.isr:
        alone = before.isr if len(before.isr) == 1 else ()
        last = alone if before.leader == NO_LEADER else (before.leader,)
    last = tuple(replica for replica in last if replica in after.replicas)
    eligible = (*could_lead(state, before, after, lost), *_trusted(state, after.isr))
    if not eligible and not last:  # the last leader is no replica any more, or was not known
        known = (*before.eligible_leader_replicas, *before.isr)
        last = tuple(replica for replica in known if replica in after.replicas)[:1]
    return after._replace(isr=(), eligible_leader_replicas=eligible, last_known_elr=last)


def left_over(partition: PartitionImage) -> PartitionImage:
    """A partition of a cluster that keeps track no more: replicas that were eligible before still are."""
    eligible = (one for one in partition.eligible_leader_replicas if one in partition.replicas)
    last = (one for one in partition.last_known_elr if one in partition.replicas)
    return partition._replace(eligible_leader_replicas=tuple(eligible), last_known_elr=tuple(last))


def _trusted(state: ControllerState, isr: tuple[int, ...]) -> Iterator[int]:
    """The ISR, without brokers back after a crash whose partitions do not follow yet."""
    unfinished = state.heartbeats.unfinished
    return (replica for replica in isr if not (replica in unfinished and _may_have_crashed(state, replica)))


def _may_have_crashed(state: ControllerState, broker_id: int) -> bool:
    note = state.heartbeats.unfinished[broker_id]
    if isinstance(note, Left):
        return note.going.loses
    broker = state.image.brokers.get(broker_id)
    return broker is None or broker.fenced


def _needed(state: ControllerState, topic: str, partition: PartitionImage) -> int:
    """No more than there are, as for the leader."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return min(int(state.settings.rules.value_of(state.image, resource, MIN_ISR) or 1), len(partition.replicas))
