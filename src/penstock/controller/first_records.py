"""What an empty cluster begins with: levels of features, what they need, the first users, and what they may do."""

from collections.abc import Sequence

from penstock.controller.decision import ControllerState
from penstock.controller.min_isr import made_explicit
from penstock.metadata.brokers import Feature
from penstock.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KAFKAS_FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    SUPPORTED_FEATURES,
    first_levels,
)
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, UserScramCredentialRecord

OF_USERS = (UserScramCredentialRecord, AccessControlEntryRecord)


def first_records(state: ControllerState, formatted: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """The formatted levels, or the nearest supported ones; where no level was formatted those of new clusters in Kafka.
    A level whose needs are not met is left out.

    As in Kafka, whose tool writes no level 0, a feature that was not named beside metadata.version is at 0.
    """
    named = {record.name: record.feature_level for record in formatted if isinstance(record, FeatureLevelRecord)}
    if METADATA_VERSION not in named:
        named = first_levels(NEWEST_METADATA_VERSION) | named
    metadata_version = _supported(METADATA_VERSION, named[METADATA_VERSION])
    records: list[MetadataRecord] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version)]
    for name, levels in KAFKAS_FEATURES.items():
        level = _supported(name, named.get(name, 0))
        if not level or name == KRAFT_VERSION or metadata_version < levels[level].needs.get(METADATA_VERSION, 0):
            continue
        if name == ELIGIBLE_LEADER_REPLICAS:
            records += made_explicit(state)
        records.append(FeatureLevelRecord(name=name, feature_level=level))
    return records + [record for record in formatted if isinstance(record, OF_USERS)]


def _supported(feature: str, level: int) -> int:
    supported = SUPPORTED_FEATURES.get(feature, Feature(0, 0))
    return max(supported.lowest, min(level, supported.newest))
