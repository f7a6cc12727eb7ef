"""`min.insync.replicas` while the controller keeps track of eligible leaders: the same for everybody.

Who is an eligible leader goes by how many replicas must be in sync, on the controller and on each partition's leader.
So there has to be a value for the whole cluster, which no broker's file and no single broker's config can contradict:
it is written down when the feature begins, and may be changed, not removed. And a replica that is eligible by one
value may not be by another: a change of it makes all eligible leaders forgotten (KIP-966). But partitions without a
leader commit nothing meanwhile: they keep them, and the last leader, else they would never have a leader again.
"""

from collections.abc import Iterable

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState
from penstock.controller.eligible_leaders import MIN_ISR, keeps_track
from penstock.metadata.image import ClusterImage, ConfigResource, ResourceType
from penstock.metadata.partition_index import each
from penstock.metadata.records import ClearElrRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord
from penstock.protocol.errors import ErrorCode, KafkaError

CLUSTER = ConfigResource(ResourceType.BROKER, "")


def made_explicit(state: ControllerState) -> list[MetadataRecord]:
    """All brokers must go by one value while the controller knows eligible leaders."""
    records: list[MetadataRecord] = []
    if MIN_ISR not in state.image.configs.get(CLUSTER, {}):
        records.append(_config(CLUSTER, state.settings.rules.value_of(state.image, CLUSTER, MIN_ISR)))
    for resource, settings in state.image.configs.items():
        if resource.resource_type is ResourceType.BROKER and resource.name and MIN_ISR in settings:
            records.append(_config(resource, None))
    return records


def after_change(
    state: ControllerState, resource: ConfigResource, changes: Iterable[tuple[str, str | None]]
) -> list[MetadataRecord]:
    """Raises KafkaError for changes that cannot be."""
    if not keeps_track(state.image):
        return []
    records: list[MetadataRecord] = []
    for key, value in changes:
        if key == MIN_ISR:
            _check(resource, value)
            topic = resource.name if resource.resource_type is ResourceType.TOPIC else ""
            records += [ClearElrRecord(topic_name=topic), *_kept(state.image, topic)]
    return records


def _check(resource: ConfigResource, value: str | None) -> None:
    if resource.resource_type is not ResourceType.BROKER:
        return
    if resource.name:
        message = f"{MIN_ISR}: while eligible leaders are known it is the cluster's, and no broker has its own"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if value is None:
        message = f"{MIN_ISR}: while eligible leaders are known the cluster has to have a value"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _kept(image: ClusterImage, topic: str) -> list[MetadataRecord]:
    """Partitions without a leader keep what they know, after that of one topic or all is gone."""
    records: list[MetadataRecord] = []
    leaderless = image.index.leaderless
    for name, index in each({topic: leaderless.get(topic, 0)} if topic else leaderless):
        partition = image.topics[name].partitions[index]
        eligible, last = partition.eligible_leader_replicas, partition.last_known_elr
        if eligible or last:
            records.append(
                PartitionChangeRecord(
                    partition_id=index,
                    topic_id=image.topics[name].topic_id,
                    eligible_leader_replicas=list(eligible),
                    last_known_elr=list(last),
                )
            )
    if len(records) > MAX_RECORDS_PER_DECISION // 2:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{MIN_ISR}: too many partitions have no leader now")
    return records


def _config(resource: ConfigResource, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.resource_type, resource_name=resource.name, name=MIN_ISR, value=value)
