"""How a topic is replicated: `replication.mode` and `storage.group`, topic keys of ours that never change.

With `consensus` all partitions of the topic belong to one storage group, whose number is in `storage.group`; the
controller writes it when it creates the topic (decision 0309).
"""

from collections.abc import Mapping
from typing import Final

REPLICATION_MODE = "replication.mode"
STORAGE_GROUP = "storage.group"

ISR: Final = "isr"
CONSENSUS: Final = "consensus"

DECIDED_AT_CREATION: Final = (REPLICATION_MODE, STORAGE_GROUP)


def asks_for_consensus(settings: Mapping[str, str]) -> bool:
    """Such topics belong to a storage group."""
    return settings.get(REPLICATION_MODE, ISR).strip() == CONSENSUS


def storage_group_in(settings: Mapping[str, str]) -> int | None:
    """None if the configs of the topic name no group."""
    text = settings.get(STORAGE_GROUP, "").strip()
    return int(text) if text.isdecimal() else None
