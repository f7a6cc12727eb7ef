"""What the coordinator of a group of workers knows of them: their protocol type, and the position of each.

A worker's metadata in JoinGroup begins with a version (int16) and its position (int64), by which the leader is
elected; what follows is between the workers. Groups of all other types elect the member that joined first, as in Kafka.
"""

import struct
from typing import Final

PROTOCOL_TYPE: Final = "penstock-work"
METADATA_VERSION: Final = 0
HEAD: Final = struct.Struct(">hq")
NO_POSITION: Final = -1


def position_of(metadata: bytes) -> int:
    """NO_POSITION where the metadata hold none."""
    if len(metadata) < HEAD.size:
        return NO_POSITION
    _, position = HEAD.unpack_from(metadata)
    return int(position)
