"""The file `quorum-state` beside the log of the consensus core: its last leader and this node's last vote.

It is KRaft's: JSON in one line. Version 0 belongs to quorums whose voters are fixed in the configuration, version 1 to
those whose voters have directory ids (KIP-853). A node that forgot its vote could vote twice in one epoch, so the file
is replaced atomically and reaches the disk before any other node is told.
"""

import json
from typing import Any, Final
from uuid import UUID

from penstock.log.disk import Disk
from penstock.log.health import Health
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text
from penstock.raft.effects import ElectionState
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey

FILE_NAME: Final = "quorum-state"
NOBODY: Final = -1


class QuorumStateError(ValueError):
    pass


class StateFile:
    def __init__(self, disk: Disk, directory: str, health: Health | None = None) -> None:
        self._disk = disk
        self._health = health or Health(directory)
        self.path = f"{directory}/{FILE_NAME}"

    def read(self) -> ElectionState:
        """A state of no leader and no vote in epoch 0 if none was written. Raises QuorumStateError."""
        content = self._disk.read_file(self.path)
        if content is None:
            return ElectionState()
        try:
            return _state(json.loads(content))
        except (ValueError, KeyError, TypeError) as error:
            raise QuorumStateError(
                f"{self.path}: not the state of a metadata quorum ({error!r}): restore it from a backup; without it"
                " this node could vote twice"
            ) from error

    def write(self, state: ElectionState, quorum: Quorum) -> None:
        """Durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        data = _version_1(state) if quorum.kraft_version >= DYNAMIC_VOTERS else _version_0(state, quorum)
        content = json.dumps(data, separators=(",", ":")).encode()
        self._health.check()
        with self._health.raising(f"writing {self.path}"):
            self._disk.replace_file(self.path, content, durable=True)


def _state(data: dict[str, Any]) -> ElectionState:
    version = data["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version is {version}, known are 0 and 1")
    epoch, leader_id, voted_id = int(data["leaderEpoch"]), int(data["leaderId"]), int(data["votedId"])
    directory_id: UUID = uuid_from_text(data["votedDirectoryId"]) if version else ZERO_UUID
    return ElectionState(
        epoch=max(epoch, 0),
        leader_id=leader_id if leader_id != NOBODY else None,
        voted=ReplicaKey(voted_id, directory_id) if voted_id != NOBODY else None,
    )


def _version_0(state: ElectionState, quorum: Quorum) -> dict[str, object]:
    return {
        "clusterId": "",  # Kafka leaves it empty here; meta.properties has it
        "leaderId": NOBODY if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": NOBODY if state.voted is None else state.voted.id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter_id} for voter_id in quorum.ids],
        "data_version": 0,
    }


def _version_1(state: ElectionState) -> dict[str, object]:
    voted = state.voted or ReplicaKey(NOBODY)
    return {
        "leaderId": NOBODY if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted.id,
        "votedDirectoryId": uuid_to_text(voted.directory_id),
        "data_version": 1,
    }
