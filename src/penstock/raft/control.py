"""Control records of the metadata log that the quorum itself writes and reads, in Kafka's layouts.

How any control record is written and told from others is in `protocol/control.py`.
"""

from collections.abc import Iterator, Sequence

from penstock.protocol.codec import decode, encode
from penstock.protocol.control.records import ControlType, control_record
from penstock.protocol.control.records import control_type as declared_type
from penstock.protocol.control.snapshot_file import snapshot_header_record
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages import leader_change_message as leader_change
from penstock.protocol.messages import voters_record
from penstock.protocol.messages.k_raft_version_record import KRaftVersionRecord
from penstock.protocol.records import Record, decode_batch, iterate_batches
from penstock.protocol.varint import Buffer
from penstock.raft.voters import DYNAMIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter


def leader_change_record(leader_id: int, quorum: Quorum, granting: Sequence[ReplicaKey], now_ms: int) -> Record:
    """In version 0, without the ids of directories: Apache Kafka writes and reads no other (KIP-595)."""
    message = leader_change.LeaderChangeMessage(
        leader_id=leader_id,
        voters=[leader_change.Voter(voter_id=voter.key.id) for voter in quorum.voters],
        granting_voters=[leader_change.Voter(voter_id=key.id) for key in granting],
    )
    return control_record(ControlType.LEADER_CHANGE, encode(message, 0), now_ms)


def kraft_version_record(kraft_version: int, now_ms: int) -> Record:
    return control_record(
        ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=kraft_version), 0), now_ms
    )


def voters_record_of(quorum: Quorum, now_ms: int) -> Record:
    """Has their directories and endpoints (KIP-853)."""
    message = voters_record.VotersRecord(
        voters=[
            voters_record.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[voters_record.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
                k_raft_version_feature=voters_record.KRaftVersionFeature(
                    min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                ),
            )
            for voter in quorum.voters
        ]
    )
    return control_record(ControlType.KRAFT_VOTERS, encode(message, 0), now_ms)


def snapshot_header_records(quorum: Quorum, last_timestamp_ms: int, now_ms: int) -> list[Record]:
    """A snapshot begins with its header and, where voters may change, the voters (KIP-630, KIP-853)."""
    records = [snapshot_header_record(last_timestamp_ms, now_ms)]
    if quorum.kraft_version >= DYNAMIC_VOTERS:
        records += [kraft_version_record(quorum.kraft_version, now_ms), voters_record_of(quorum, now_ms)]
    return records


def quorums_in(buffer: Buffer, quorum: Quorum) -> Iterator[tuple[int, Quorum]]:
    """(offset, quorum) for each control record in these batches that changes the quorum. Raises DecodeError."""
    for position, header in iterate_batches(buffer):
        if not header.is_control:
            continue
        for record in decode_batch(buffer, position):
            kind, value = control_type(record), record.value or b""
            if kind == ControlType.KRAFT_VERSION:
                quorum = quorum.replace(kraft_version=decode(KRaftVersionRecord, 0, value)[0].k_raft_version)
            elif kind == ControlType.KRAFT_VOTERS:
                quorum = Quorum.of(_voters(decode(voters_record.VotersRecord, 0, value)[0]), quorum.kraft_version)
            else:
                continue
            yield record.offset, quorum


def control_type(record: Record) -> int:
    """A record without a type has no place in the quorum's log. Raises DecodeError."""
    kind = declared_type(record)
    if kind < 0:
        raise DecodeError("a control record whose key is not four bytes")
    return kind


def _voters(record: voters_record.VotersRecord) -> list[Voter]:
    return [
        Voter(
            key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
            endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
            min_kraft_version=voter.k_raft_version_feature.min_supported_version,
            max_kraft_version=voter.k_raft_version_feature.max_supported_version,
        )
        for voter in record.voters
    ]
