"""What Apache Kafka's DumpLogSegments prints of the same bytes, line by line."""

from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner
from tests.unit.cli.elections import election

from penstock.cli.dump.dump_log import command
from penstock.cli.metadata_shell.source import read_view
from penstock.metadata.configs.voters import InitialController
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import BrokerRegistrationChangeRecord, FeatureLevelRecord, MetadataRecord, TopicRecord
from penstock.metadata.snapshot import encode_snapshot, snapshot_name
from penstock.node.assembly.first_voters import FIRST_SNAPSHOT_NAME, first_snapshot
from penstock.protocol.records import Record, encode_batch


def dumped(file: Path, *options: str) -> list[str]:
    result = CliRunner().invoke(command, ["--cluster-metadata-decoder", "--files", str(file), *options])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()[1:]


def payloads(file: Path) -> list[str]:
    """The heading, and of each record what it means."""
    heading, *lines = dumped(file)
    return [heading, *("| " + line.partition("headerKeys: [] ")[2] for line in lines if line.startswith("| "))]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            FeatureLevelRecord(name="metadata.version", feature_level=25),
            '{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":25}}',
        ),
        (
            TopicRecord(name="t", topic_id=UUID(int=1)),
            '{"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}}',
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1),
            '{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":3,'
            '"data":{"brokerId":1,"brokerEpoch":2,"fenced":-1}}',
        ),
    ],
)
def test_a_record_has_what_its_version_has_and_of_tagged_fields_what_was_written(
    tmp_path: Path, record: MetadataRecord, line: str
) -> None:
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(encode_batch([Record(timestamp_ms=1, value=encode_record(record))]))
    assert payloads(file) == ["Log starting offset: 0", f"| payload: {line}"]


def test_without_the_metadata_of_records_batches_and_payloads_are_left(tmp_path: Path) -> None:
    file = tmp_path / f"{0:020d}.log"
    record = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=25))
    file.write_bytes(election(1, 6, now_ms=5) + encode_batch([Record(timestamp_ms=1, value=record)], base_offset=1))
    heading, election_batch, batch, payload = dumped(file, "--skip-record-metadata")
    assert heading == "Log starting offset: 0"
    assert election_batch.startswith("baseOffset: 0 lastOffset: 0 count: 1 ")
    assert batch.startswith("baseOffset: 1 lastOffset: 1 count: 1 ")
    assert payload.startswith('| payload: {"type":"FEATURE_LEVEL_RECORD"')


def test_a_leader_change_of_version_0_has_no_ids_of_directories(tmp_path: Path) -> None:
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(election(1, 6, now_ms=5))
    voters = '"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]'
    assert payloads(file)[1:] == ['| LeaderChange: {"version":0,"leaderId":1,' + voters + "}"]


def test_a_snapshot_has_its_header_and_footer(tmp_path: Path) -> None:
    file = tmp_path / snapshot_name(76, 3)
    file.write_bytes(b"".join(encode_snapshot([], leader_epoch=3, last_timestamp_ms=8, now_ms=9)))
    assert payloads(file) == [
        "Snapshot end offset: 76, epoch: 3",
        '| SnapshotHeader {"version":0,"lastContainedLogTimestamp":8}',
        '| SnapshotFooter {"version":0}',
    ]


FIRST_LEVELS = {
    "metadata.version": 33,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "share.version": 2,
    "streams.version": 1,
}


def test_voters_are_told_as_kafka_tells_them(tmp_path: Path) -> None:
    controller = InitialController(1, "localhost", 9093, UUID(int=1))
    file = tmp_path / FIRST_SNAPSHOT_NAME
    file.write_bytes(first_snapshot({1: controller}, "CONTROLLER", 5))
    assert payloads(file) == [
        "Snapshot end offset: 0, epoch: 0",
        '| SnapshotHeader {"version":0,"lastContainedLogTimestamp":5}',
        '| KRaftVersion {"version":0,"kRaftVersion":1}',
        '| KRaftVoters {"version":0,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ",'
        '"endpoints":[{"name":"CONTROLLER","host":"localhost","port":9093}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
        *(
            f'| payload: {{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{{"name":"{name}","featureLevel":{at}}}}}'
            for name, at in FIRST_LEVELS.items()
        ),
        '| SnapshotFooter {"version":0}',
    ]


def test_the_shell_reads_a_snapshot_that_names_voters(tmp_path: Path) -> None:
    controller = InitialController(1, "localhost", 9093, UUID(int=1))
    file = tmp_path / FIRST_SNAPSHOT_NAME
    file.write_bytes(first_snapshot({1: controller}, "CONTROLLER", 5))
    assert read_view(file).image.features == FIRST_LEVELS
