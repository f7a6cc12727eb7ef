"""The features of a cluster: what they are called, and which of their levels this software can run at.

The levels of `metadata.version`, the records that each of them brought, and what a feature depends on are Kafka's
(MetadataVersion, Feature); the newest level here is the newest stable one of Kafka 4.4.
"""

from typing import Final

from penstock.metadata.brokers import Feature
from penstock.protocol.value import Value

METADATA_VERSION: Final = "metadata.version"
"""Which metadata records there may be."""
LOWEST_METADATA_VERSION: Final = 7
"""The lowest level that Kafka 4 runs at (3.3-IV3)."""
NEWEST_METADATA_VERSION: Final = 33
"""The level that a new cluster starts with: that of Kafka 4.4 (4.4-IV2)."""

_NAMES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
)  # fmt: skip
METADATA_VERSION_NAMES: Final = dict(enumerate(_NAMES, LOWEST_METADATA_VERSION))
"""What Kafka's tools call the levels of metadata.version."""

KRAFT_VERSION: Final = "kraft.version"
"""Whether the voters of the metadata quorum are fixed (0) or in its log (1, KIP-853). No metadata record tells its
level: the quorum's own log does."""

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""Whether the controller keeps track of who may lead beside those in sync (1) or not (0, KIP-966)."""

SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: Feature(LOWEST_METADATA_VERSION, NEWEST_METADATA_VERSION),
    KRAFT_VERSION: Feature(0, 1),
    ELIGIBLE_LEADER_REPLICAS: Feature(0, 1),
}


class FeatureLevel(Value):
    """A level of one of Kafka's features: the level of metadata.version from which on a new cluster has it, and what
    other levels it needs.
    """

    from_metadata_version: int
    needs: dict[str, int]


KAFKAS_FEATURES: Final[dict[str, tuple[FeatureLevel, ...]]] = {
    KRAFT_VERSION: (FeatureLevel(7, {}), FeatureLevel(21, {})),
    "transaction.version": (FeatureLevel(7, {}), FeatureLevel(24, {}), FeatureLevel(24, {})),
    "group.version": (FeatureLevel(7, {}), FeatureLevel(22, {})),
    ELIGIBLE_LEADER_REPLICAS: (FeatureLevel(7, {}), FeatureLevel(26, {METADATA_VERSION: 23})),
    "share.version": (FeatureLevel(7, {}), FeatureLevel(28, {}), FeatureLevel(31, {})),
    "streams.version": (FeatureLevel(7, {}), FeatureLevel(29, {})),
}
"""Kafka's features beside metadata.version, each with its levels from 0 on."""

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

LEVELS_WITH_NEW_RECORDS: Final = (8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""The levels of metadata.version that brought records or fields with them: who goes back behind one may lose data."""


def loses_metadata(present: int, wanted: int) -> bool:
    """Whether records of the level `present` may say what those of the lower level `wanted` cannot."""
    return any(wanted < level <= present for level in LEVELS_WITH_NEW_RECORDS)


def metadata_version_named(text: str) -> int | None:
    """The level of metadata.version that has this name; a release (4.4) stands for its last one. None for no level."""
    levels = [level for level, name in METADATA_VERSION_NAMES.items() if text in (name, name.partition("-")[0])]
    return max(levels, default=None)


def default_level(feature: str, metadata_version: int) -> int:
    """The level of one of Kafka's features that a new cluster at this level of metadata.version has in Kafka."""
    levels = KAFKAS_FEATURES[feature]
    return max(level for level, it in enumerate(levels) if it.from_metadata_version <= metadata_version)


def shown_level(level: int) -> str:
    """A level of metadata.version with its name, as in "33 (4.4-IV2)"."""
    name = METADATA_VERSION_NAMES.get(level)
    return str(level) if name is None else f"{level} ({name})"
