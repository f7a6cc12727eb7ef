"""What `penstock metadata-quorum describe` prints: the lines of kafka-metadata-quorum.sh for the same answer."""

from uuid import UUID

from penstock.cli.cluster.quorum_views import quorum_as_json, replication_lines, status_lines
from penstock.client.admin.quorum import QuorumEndpoint, QuorumInfo, QuorumReplica
from penstock.protocol.uuids import ZERO_UUID

DIRECTORY = UUID("b8fd9bb4-b1a6-4cf4-b43b-e1b7d7a0a8a5")
TEXT = "uP2btLGmTPS0O-G316CopQ"
INFO = QuorumInfo(
    leader_id=2,
    leader_epoch=7,
    high_watermark=100,
    voters=(
        QuorumReplica(1, DIRECTORY, 97, 9_000, 8_500),
        QuorumReplica(2, DIRECTORY, 101, 10_000, 10_000),
        QuorumReplica(3, DIRECTORY, 90, -1, -1),
    ),
    observers=(QuorumReplica(4, ZERO_UUID, 101, 9_990, 9_990),),
    endpoints={1: (QuorumEndpoint("CONTROLLER", "one", 9093),), 2: (QuorumEndpoint("CONTROLLER", "::1", 9093),)},
)


def test_the_summary() -> None:
    assert list(status_lines("c-1", INFO)) == [
        "ClusterId:              c-1",
        "LeaderId:               2",
        "LeaderEpoch:            7",
        "HighWatermark:          100",
        "MaxFollowerLag:         11",
        "MaxFollowerLagTimeMs:   -1",
        f'CurrentVoters:          [{{"id": 1, "directoryId": "{TEXT}", "endpoints": ["CONTROLLER://one:9093"]}}, '
        f'{{"id": 2, "directoryId": "{TEXT}", "endpoints": ["CONTROLLER://[::1]:9093"]}}, '
        f'{{"id": 3, "directoryId": "{TEXT}"}}]',
        'CurrentObservers:       [{"id": 4}]',
    ]


def test_the_lag_of_the_last_voter_in_time() -> None:
    known = INFO.replace(voters=INFO.voters[:2])
    assert list(status_lines("c-1", known))[4:6] == ["MaxFollowerLag:         4", "MaxFollowerLagTimeMs:   1500"]
    alone = INFO.replace(voters=INFO.voters[1:2])
    assert list(status_lines("c-1", alone))[4:6] == ["MaxFollowerLag:         0", "MaxFollowerLagTimeMs:   0"]


def test_a_leader_that_is_no_voter_any_longer() -> None:
    gone = INFO.replace(leader_id=9)
    assert list(status_lines("c-1", gone))[4:6] == ["MaxFollowerLag:         -1", "MaxFollowerLagTimeMs:   -1"]
    assert [line.split()[3] for line in replication_lines(gone, None)] == ["Lag", "3", "-1", "10", "-1"]


def test_the_replicas() -> None:
    header, *rows = replication_lines(INFO, None)
    assert header == (
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t"
    )
    assert rows[0] == f"2     \t{TEXT}\t101         \t0  \t10000             \t10000                \tLeader  \t"
    assert [row.split()[-1] for row in rows] == ["Leader", "Follower", "Follower", "Observer"]
    assert rows[3].split("\t")[1] == "AAAAAAAAAAAAAAAAAAAAAA"


def test_times_for_people() -> None:
    _, leader, first, second, _ = replication_lines(INFO, 9_500)
    assert "0 ms ago" in leader, "clocks of two machines differ"
    assert first.split("\t")[4].strip() == "500 ms ago"
    assert first.split("\t")[5].strip() == "1000 ms ago"
    assert second.split("\t")[4].strip() == "-1"


def test_the_same_for_programs() -> None:
    document = quorum_as_json("c-1", INFO)
    assert document["leader_id"] == 2
    assert document["max_follower_lag"] == 11
    voters = document["voters"]
    assert isinstance(voters, list)
    assert voters[0] == {
        "node_id": 1,
        "directory_id": TEXT,
        "endpoints": ["CONTROLLER://one:9093"],
        "log_end_offset": 97,
        "last_fetch_timestamp": 9_000,
        "last_caught_up_timestamp": 8_500,
    }
