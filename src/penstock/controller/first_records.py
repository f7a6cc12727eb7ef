"""What an empty cluster begins with: levels of features, what they need, the first users, and what they may do."""

from collections.abc import Sequence

from penstock.controller.decision import ControllerState
from penstock.controller.min_isr import made_explicit
from penstock.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KAFKAS_FEATURES,
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    SHARE_VERSION,
    SUPPORTED_FEATURES,
    default_level,
)
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, UserScramCredentialRecord

OF_USERS = (UserScramCredentialRecord, AccessControlEntryRecord)


def first_records(state: ControllerState, formatted: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """The formatted levels, or the nearest supported ones; else those of new clusters in Kafka, but for group.version
    and share.version: consumer and share groups are served where an operator wants them.
    """
    named = {record.name: record.feature_level for record in formatted if isinstance(record, FeatureLevelRecord)}
    level = _supported(METADATA_VERSION, named.get(METADATA_VERSION, NEWEST_METADATA_VERSION))
    records: list[MetadataRecord] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    default = default_level(ELIGIBLE_LEADER_REPLICAS, level)
    elr = _supported(ELIGIBLE_LEADER_REPLICAS, named.get(ELIGIBLE_LEADER_REPLICAS, default))
    if elr and level >= KAFKAS_FEATURES[ELIGIBLE_LEADER_REPLICAS][elr].needs[METADATA_VERSION]:
        records += [*made_explicit(state), FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=elr)]
    for name in (GROUP_VERSION, SHARE_VERSION):
        wanted = _supported(name, named.get(name, 0))
        if wanted:
            records.append(FeatureLevelRecord(name=name, feature_level=wanted))
    return records + [record for record in formatted if isinstance(record, OF_USERS)]


def _supported(feature: str, level: int) -> int:
    supported = SUPPORTED_FEATURES[feature]
    return max(supported.lowest, min(level, supported.newest))
