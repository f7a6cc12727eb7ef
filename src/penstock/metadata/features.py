"""The features of a cluster: what they are called, and which of their levels this software can run at."""

from typing import Final

from penstock.metadata.brokers import Feature

METADATA_VERSION: Final = "metadata.version"
"""Which metadata records there may be."""
LOWEST_METADATA_VERSION: Final = 7
"""The lowest level that Kafka 4 runs at (3.3-IV3)."""
NEWEST_METADATA_VERSION: Final = 25
"""The level that a new cluster starts with: that of Kafka 4.0 (4.0-IV3)."""

_NAMES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1",
)  # fmt: skip
METADATA_VERSION_NAMES: Final = dict(enumerate(_NAMES, LOWEST_METADATA_VERSION))
"""What Kafka's tools call the levels of metadata.version."""

KRAFT_VERSION: Final = "kraft.version"
"""Whether the voters of the metadata quorum are fixed (0) or in its log (1, KIP-853). No metadata record tells its
level: the quorum's own log does."""

SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: Feature(LOWEST_METADATA_VERSION, NEWEST_METADATA_VERSION),
    KRAFT_VERSION: Feature(0, 1),
}

CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""From this level of metadata.version on controllers register themselves (3.7-IV0)."""

LEVELS_WITH_NEW_RECORDS: Final = (8, 11, 13, 14, 15, 17, 23)
"""The levels of metadata.version that brought records or fields with them: who goes back behind one may lose data."""


def loses_metadata(present: int, wanted: int) -> bool:
    """Whether records of the level `present` may say what those of the lower level `wanted` cannot."""
    return any(wanted < level <= present for level in LEVELS_WITH_NEW_RECORDS)
