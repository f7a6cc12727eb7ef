"""The file `quorum-state` beside the metadata log: who led it last and whom this node voted for, as KRaft writes it.

It is JSON in one line. Version 0 belongs to quorums whose voters are fixed in the configuration. A node that forgot its
vote could vote twice in one epoch, so the file is replaced atomically and reaches the disk before anybody is told.
"""

import json
import os
from dataclasses import dataclass

from penstock.log.disk import Disk

FILE_NAME = "quorum-state"
DATA_VERSION = 0
NOBODY = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What has to survive a restart."""

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voters: tuple[int, ...] = ()


class QuorumStateError(ValueError):
    """The file holds something that this version does not understand."""


def read_quorum_state(disk: Disk, directory: str) -> QuorumState:
    """The state that was written last; a state of nobody in epoch 0 if none ever was."""
    path = os.path.join(directory, FILE_NAME)
    content = disk.read_file(path)
    if content is None:
        return QuorumState()
    try:
        data = json.loads(content)
        version = data["data_version"]
        if version != DATA_VERSION:
            raise ValueError(f"data_version is {version}, known is {DATA_VERSION}")
        return QuorumState(
            leader_id=int(data["leaderId"]),
            leader_epoch=int(data["leaderEpoch"]),
            voted_id=int(data["votedId"]),
            voters=tuple(int(voter["voterId"]) for voter in data["currentVoters"] or ()),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise QuorumStateError(f"{path}: not the state of a metadata quorum: {error!r}") from error


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Replaces the file, durably."""
    data = {
        "clusterId": "",  # Kafka leaves it empty here; meta.properties has it
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": DATA_VERSION,
    }
    content = json.dumps(data, separators=(",", ":")).encode()
    disk.replace_file(os.path.join(directory, FILE_NAME), content, durable=True)
