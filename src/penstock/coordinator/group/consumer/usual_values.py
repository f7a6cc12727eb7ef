"""What members are to have, and have, read in a third of the time from values in the form that nearly all have.

In that form every length takes one byte: no topic has more than 31 partitions. A coordinator reads very many when it
begins. `records.py` has the layouts, and reads what has another form.
"""

import struct
from struct import Struct
from typing import Final
from uuid import UUID

from penstock.coordinator.group.consumer.assignors.spec import Target
from penstock.coordinator.group.consumer.values import Current
from penstock.protocol.uuids import uuid_of

_TARGET: Final = Struct(">hB")
"""Version, and topics."""
_CURRENT: Final = Struct(">hiibB")
"""Version, both epochs, state, and topics. As all counts it is one more than there are."""
_COUNTS: Final = range(1, 33)
_TARGET_TOPICS: Final = {count: Struct(f">16sB{count - 1}iB") for count in _COUNTS}
_CURRENT_TOPICS: Final = {count: Struct(f">16sB{count - 1}i4s{count - 1}i") for count in _COUNTS}
_EPOCHS_ARE: Final = {count: bytes((1, 0, 4 * count - 3, count)) for count in _COUNTS}
"""Before the epochs of a topic: there is one tagged field, with the number 0 and that length, and their count."""
_COUNT_AT: Final = 16
_MOST_TOPICS: Final = 0x7F

_OTHERWISE: Final = (struct.error, IndexError, KeyError)


def usual_target(value: bytes) -> Target | None:
    """None for a value in another form."""
    try:
        version, topics = _TARGET.unpack_from(value)
        at = _TARGET.size
        target: dict[UUID, tuple[int, ...]] = {}
        for _ in range(topics - 1):
            layout = _TARGET_TOPICS[value[at + _COUNT_AT]]
            fields = layout.unpack_from(value, at)
            if fields[-1]:  # tagged ones
                return None
            partitions = fields[2:-1]
            target[uuid_of(fields[0])] = tuple(sorted(partitions)) if len(partitions) > 1 else partitions
            at += layout.size
    except _OTHERWISE:
        return None
    return None if version or not 0 < topics <= _MOST_TOPICS or value[at:] != b"\0" else target


def usual_current(value: bytes) -> Current | None:
    """None for a value in another form."""
    try:
        version, epoch, previous_epoch, state, topics = _CURRENT.unpack_from(value)
        assigned, at = _owned(value, _CURRENT.size, topics)
        revoking, at = _owned(value, at + 1, value[at])
    except _OTHERWISE:
        return None
    return None if version or value[at:] != b"\0" else Current(epoch, previous_epoch, state, assigned, revoking)


def _owned(value: bytes, at: int, topics: int) -> tuple[dict[UUID, dict[int, int]], int]:
    """With where it ends. Raises one of `_OTHERWISE`."""
    if not 0 < topics <= _MOST_TOPICS:
        raise KeyError
    owned: dict[UUID, dict[int, int]] = {}
    for _ in range(topics - 1):
        count = value[at + _COUNT_AT]
        layout = _CURRENT_TOPICS[count]
        fields = layout.unpack_from(value, at)
        if fields[count + 1] != _EPOCHS_ARE[count]:
            raise KeyError
        epochs = owned[uuid_of(fields[0])] = {}
        for number in range(2, count + 1):
            epochs[fields[number]] = fields[number + count]
        at += layout.size
    return owned, at
