"""The features of a cluster: what they are called, and which of their levels this software can run at.

The levels of `metadata.version`, the records that each of them brought, and what a feature depends on are Kafka's
(MetadataVersion, Feature); the newest level here is the newest stable one of Kafka 4.4.
"""

from collections.abc import Mapping
from typing import Final

from penstock.metadata.brokers import Feature
from penstock.protocol.value import Value

METADATA_VERSION: Final = "metadata.version"
"""It says which metadata records are allowed."""
LOWEST_METADATA_VERSION: Final = 7
"""Kafka 4 supports no lower one (3.3-IV3)."""
NEWEST_METADATA_VERSION: Final = 33
"""The level of Kafka 4.4 (4.4-IV2); new clusters start with it."""

_NAMES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
)  # fmt: skip
METADATA_VERSION_NAMES: Final = dict(enumerate(_NAMES, LOWEST_METADATA_VERSION))

KRAFT_VERSION: Final = "kraft.version"
"""Whether voters are fixed (0) or in the quorum's own log (1, KIP-853), as is this level: no metadata record tells it.
"""

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""Whether the controller keeps track of eligible leaders that are not in sync (1) or not (0, KIP-966)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Whether records about transactions are flexible (1) and epochs are raised with each transaction (2, KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""Whether there are groups of the consumer protocol (1, KIP-848)."""

SHARE_VERSION: Final = "share.version"
"""Whether there are share groups (1, KIP-932), and dead letters of what they give up (2, KIP-1191)."""

STREAMS_VERSION: Final = "streams.version"
"""Whether there are streams groups (1, KIP-1071)."""

DELAY_VERSION: Final = "penstock.delay.version"
"""A feature of ours: whether records may wait (1). The controller raises it with the first topic in which they may, and
new clusters begin without: Kafka's own nodes do not know it.
"""
DELAY_LEVEL: Final = 1

SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: Feature(LOWEST_METADATA_VERSION, NEWEST_METADATA_VERSION),
    KRAFT_VERSION: Feature(0, 1),
    ELIGIBLE_LEADER_REPLICAS: Feature(0, 1),
    TRANSACTION_VERSION: Feature(0, 2),
    GROUP_VERSION: Feature(0, 1),
    SHARE_VERSION: Feature(0, 2),
    STREAMS_VERSION: Feature(0, 1),
    DELAY_VERSION: Feature(0, DELAY_LEVEL),
}


class FeatureLevel(Value):
    """New clusters have it from this level of metadata.version on; `needs` are levels of other features."""

    from_metadata_version: int
    needs: dict[str, int]


KAFKAS_FEATURES: Final[dict[str, tuple[FeatureLevel, ...]]] = {
    KRAFT_VERSION: (FeatureLevel(7, {}), FeatureLevel(21, {})),
    TRANSACTION_VERSION: (FeatureLevel(7, {}), FeatureLevel(24, {}), FeatureLevel(24, {})),
    GROUP_VERSION: (FeatureLevel(7, {}), FeatureLevel(22, {})),
    ELIGIBLE_LEADER_REPLICAS: (FeatureLevel(7, {}), FeatureLevel(26, {METADATA_VERSION: 23})),
    SHARE_VERSION: (FeatureLevel(7, {}), FeatureLevel(28, {}), FeatureLevel(31, {})),
    STREAMS_VERSION: (FeatureLevel(7, {}), FeatureLevel(29, {})),
}
"""All but metadata.version; levels count from 0."""

SCRAM_LEVEL: Final = 11
"""From this level of metadata.version on there are records of SCRAM credentials (3.5-IV2)."""
DELEGATION_TOKEN_LEVEL: Final = 14
"""From this level of metadata.version on there are records of delegation tokens (3.6-IV2)."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""From this level of metadata.version on controllers register themselves (3.7-IV0)."""
DIRECTORY_LEVEL: Final = 17
"""From this level of metadata.version on the metadata says in which directories replicas lie (3.7-IV2)."""

CORDONED_LEVEL: Final = 30
"""From this level of metadata.version on brokers say which directories are to get no new replicas (4.3-IV0)."""
CIDR_LEVEL: Final = 32
"""From this level of metadata.version on access rules may name networks (4.4-IV1, KIP-1276)."""
CONTROLLER_UNREGISTRATION_LEVEL: Final = 33
"""From this level of metadata.version on controllers' registrations can be taken away (4.4-IV2, KIP-1312)."""

LEVELS_WITH_NEW_RECORDS: Final = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""They brought records or fields with them: a downgrade below one may lose data."""


def loses_metadata(present: int, wanted: int) -> bool:
    """The higher level `present` may have records or fields that `wanted` lacks."""
    return any(wanted < level <= present for level in LEVELS_WITH_NEW_RECORDS)


def beyond(levels: Mapping[str, int], supported: Mapping[str, Feature] = SUPPORTED_FEATURES) -> dict[str, Feature]:
    """The features of a cluster at whose level a node cannot run, with the levels at which it can."""
    found = {name: supported.get(name, Feature(0, 0)) for name in levels}
    return {name: it for name, it in found.items() if not it.lowest <= levels[name] <= it.newest}


def metadata_version_named(text: str) -> int | None:
    """A release (4.4) stands for its last level. None for no level."""
    levels = [level for level, name in METADATA_VERSION_NAMES.items() if text in (name, name.partition("-")[0])]
    return max(levels, default=None)


def first_levels(metadata_version: int) -> dict[str, int]:
    """What a new cluster at this level of metadata.version begins with; levels of 0 are left out."""
    levels = {name: default_level(name, metadata_version) for name in KAFKAS_FEATURES if name != KRAFT_VERSION}
    return {METADATA_VERSION: metadata_version} | {name: level for name, level in levels.items() if level}


def default_level(feature: str, metadata_version: int) -> int:
    """That of a new cluster at this level of metadata.version, as in Kafka."""
    levels = KAFKAS_FEATURES[feature]
    return max(level for level, it in enumerate(levels) if it.from_metadata_version <= metadata_version)


def shown_level(level: int) -> str:
    """For example "33 (4.4-IV2)"."""
    name = METADATA_VERSION_NAMES.get(level)
    return str(level) if name is None else f"{level} ({name})"
