"""What `penstock dump-log --print-data-log` shows of the log of a storage group."""

import json
from pathlib import Path
from uuid import UUID

from click.testing import CliRunner

from penstock.cli.dump.dump_log import command
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.uuids import uuid_to_text
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    begins,
    encode_proposal,
    opened,
)
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, encode_snapshot

ORDERS = PartitionId(UUID(int=10), 3)
OF_ORDERS = {"topicId": uuid_to_text(ORDERS.topic_id), "partition": 3}


def shown(path: Path) -> list[tuple[object, object]]:
    """Key and value of each record in a file that is none of the quorum's."""
    done = CliRunner().invoke(command, ["--files", str(path), "--print-data-log", "--json"])
    assert done.exit_code == 0, done.output
    lines = (json.loads(line) for line in done.output.splitlines())
    return [(line.get("key"), line.get("payload")) for line in lines if "key" in line]


def test_entries_are_shown_as_what_they_mean(tmp_path: Path) -> None:
    batch = bytes(encode_batch([Record(value=b"x")] * 3, base_offset=40, partition_leader_epoch=7, producer_id=9))
    entries: list[Entry | HandedOver] = [
        opened(ORDERS, "orders", 17),
        Entry(Kind.APPENDED, ORDERS, batch),
        begins(ORDERS, 41),
        Entry(Kind.CLOSED, ORDERS),
        HandedOver(epoch=5, successor=2, ends_in_ms=None),
    ]
    path = tmp_path / "__storage_group-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(encode_proposal(entries, 1))
    appended = {"baseOffset": 40, "lastOffset": 42, "leaderEpoch": 7, "producerId": 9, "size": len(batch)}
    assert shown(path) == [
        ({"type": "OPENED"} | OF_ORDERS, {"topic": "orders", "metadataOffset": 17}),
        ({"type": "APPENDED"} | OF_ORDERS, appended),
        ({"type": "BEGINS"} | OF_ORDERS, {"logStartOffset": 41}),
        ({"type": "CLOSED"} | OF_ORDERS, None),
        ({"type": "HANDED_OVER"}, {"epoch": 5, "successor": 2, "endsInMs": None}),
    ]


def test_a_snapshot_says_from_where_to_where_logs_go(tmp_path: Path) -> None:
    there, gone = PartitionState(ORDERS, "orders", 42, 17, 5), PartitionState(ORDERS, "orders", REMOVED, 17)
    quorum = Quorum.of([Voter(ReplicaKey(1))])
    path = tmp_path / "__storage_group-0" / "00000000000000000050-0000000007.checkpoint"
    path.parent.mkdir()
    path.write_bytes(b"".join(encode_snapshot([there, gone], quorum, epoch=7, now_ms=1)))
    assert shown(path) == [
        (OF_ORDERS, {"topic": "orders", "logStartOffset": 5, "logEndOffset": 42, "metadataOffset": 17}),
        (OF_ORDERS, {"topic": "orders", "logStartOffset": 0, "deleted": True, "metadataOffset": 17}),
    ]
