"""What `penstock metadata-quorum describe` prints, in the form of kafka-metadata-quorum.sh, or as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from penstock.client.admin.quorum import QuorumInfo, QuorumReplica
from penstock.protocol.uuids import ZERO_UUID, uuid_to_text

UNKNOWN: Final = -1
LABEL_WIDTH: Final = 24
COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def status_lines(cluster_id: str, info: QuorumInfo) -> Iterator[str]:
    lag, lag_ms = _greatest_lag(info)
    for label, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", info.leader_id),
        ("LeaderEpoch", info.leader_epoch),
        ("HighWatermark", info.high_watermark),
        ("MaxFollowerLag", lag),
        ("MaxFollowerLagTimeMs", lag_ms),
        ("CurrentVoters", _members(info.voters, info)),
        ("CurrentObservers", _members(info.observers, info)),
    ):
        yield f"{label}:".ljust(LABEL_WIDTH) + str(value)


def replication_lines(info: QuorumInfo, now_ms: int | None) -> Iterator[str]:
    """The table of `--replication`: columns padded, a tab behind each. With `now_ms` times are told as ages."""
    rows = [list(COLUMNS), *([str(cell) for cell in row] for row in _rows(info, now_ms))]
    widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
    for row in rows:
        yield "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True))


def quorum_as_json(cluster_id: str, info: QuorumInfo) -> dict[str, object]:
    lag, lag_ms = _greatest_lag(info)
    return {
        "cluster_id": cluster_id,
        "leader_id": info.leader_id,
        "leader_epoch": info.leader_epoch,
        "high_watermark": info.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": lag_ms,
        "voters": [_as_json(replica, info) for replica in info.voters],
        "observers": [_as_json(replica, info) for replica in info.observers],
    }


def _as_json(replica: QuorumReplica, info: QuorumInfo) -> dict[str, object]:
    return {
        "node_id": replica.node_id,
        "directory_id": uuid_to_text(replica.directory_id),
        "endpoints": [str(endpoint) for endpoint in info.endpoints.get(replica.node_id, ())],
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }


def _greatest_lag(info: QuorumInfo) -> tuple[int, int]:
    """How far the last voter is behind: in records and in milliseconds, -1 where that is not known."""
    leader = info.leader
    if leader is None:
        return UNKNOWN, UNKNOWN
    last = min(info.voters, key=lambda voter: voter.log_end_offset)
    lag = leader.log_end_offset - last.log_end_offset
    if last is leader:
        return lag, 0
    if UNKNOWN in (leader.last_caught_up_ms, last.last_caught_up_ms):
        return lag, UNKNOWN
    return lag, leader.last_caught_up_ms - last.last_caught_up_ms


def _members(replicas: Sequence[QuorumReplica], info: QuorumInfo) -> str:
    return "[" + ", ".join(_member(replica, info) for replica in replicas) + "]"


def _member(replica: QuorumReplica, info: QuorumInfo) -> str:
    member: dict[str, object] = {"id": replica.node_id}
    if replica.directory_id != ZERO_UUID:
        member["directoryId"] = uuid_to_text(replica.directory_id)
    endpoints = info.endpoints.get(replica.node_id, ())
    if endpoints:
        member["endpoints"] = [str(endpoint) for endpoint in endpoints]
    return json.dumps(member)


def _rows(info: QuorumInfo, now_ms: int | None) -> Iterable[tuple[object, ...]]:
    end_offset = info.leader.log_end_offset if info.leader is not None else info.high_watermark
    leaders = [voter for voter in info.voters if voter.node_id == info.leader_id]
    followers = [voter for voter in info.voters if voter.node_id != info.leader_id]
    for status, replicas in (("Leader", leaders), ("Follower", followers), ("Observer", info.observers)):
        for replica in replicas:
            yield (
                replica.node_id,
                uuid_to_text(replica.directory_id),
                replica.log_end_offset,
                end_offset - replica.log_end_offset,
                _when(replica.last_fetch_ms, now_ms),
                _when(replica.last_caught_up_ms, now_ms),
                status,
            )


def _when(timestamp_ms: int, now_ms: int | None) -> str:
    if now_ms is None or timestamp_ms < 0:
        return str(timestamp_ms)
    return f"{max(0, now_ms - timestamp_ms)} ms ago"
