"""The file `replica-id` beside a group's log: the id of a replica that has begun anew where another one may have been.

A voter is a node and its log directory, for what it has promised is on that disk. Where the directory is the same and
the group's log is gone, that is forgotten: to come back under the same name would be to vote a second time, for a
candidate that lacks what was acknowledged. So such a replica draws an id in the place of the directory's. For the
others it is one whose disk was replaced: it fetches without a vote, and gets the former one's when it has caught up.
"""

from typing import Final
from uuid import UUID

from penstock.log.disk import Disk
from penstock.log.health import Health
from penstock.protocol.uuids import uuid_from_text, uuid_to_text

FILE_NAME: Final = "replica-id"
HEAD: Final = "version: 0\nreplica_id: "


def read_replica_id(disk: Disk, directory: str) -> UUID | None:
    """None if there is no file. Raises ValueError."""
    content = disk.read_file(f"{directory}/{FILE_NAME}")
    return None if content is None else uuid_from_text(content.decode().removeprefix(HEAD))


def write_replica_id(disk: Disk, directory: str, health: Health, replica_id: UUID) -> None:
    """Durable, before any other node hears of this replica. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    path = f"{directory}/{FILE_NAME}"
    with health.raising(f"writing {path}"):
        disk.replace_file(path, f"{HEAD}{uuid_to_text(replica_id)}".encode(), durable=True)
