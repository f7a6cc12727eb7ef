"""`penstock dump-log --offsets-decoder` says what the records of consumer groups mean."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.coordinator.group.consumer import records
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.consumer.upgrade import classic_metadata
from penstock.coordinator.group.consumer.values import Current, GroupEpoch, Resolved, Subscription
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.protocol.records import Record, encode_batch

TOPIC = UUID(int=1)
SHOWN = "AAAAAAAAAAAAAAAAAAAAAQ"
MEMBER = Subscription("i", None, "c", "/h", ("t",), None, 7, None, classic_metadata(9, [("range", b"\0\1")]))


@pytest.mark.parametrize(
    ("key", "name", "value", "kind", "named", "payload"),
    [
        (records.GROUP, "", GroupEpoch(3, 5), "metadata", {}, {"epoch": 3, "metadataHash": 5}),
        (
            records.MEMBER,
            "m",
            MEMBER,
            "member_metadata",
            {"memberId": "m"},
            {
                "instanceId": "i",
                "rackId": None,
                "clientId": "c",
                "clientHost": "/h",
                "subscribedTopicNames": ["t"],
                "subscribedTopicRegex": None,
                "rebalanceTimeoutMs": 7,
                "serverAssignor": None,
                "classicMemberMetadata": {
                    "sessionTimeoutMs": 9,
                    "supportedProtocols": [{"name": "range", "metadata": "AAE="}],
                },
            },
        ),
        (
            records.ASSIGNMENT,
            "",
            AssignmentEpoch(3, 8),
            "target_assignment_metadata",
            {},
            {"assignmentEpoch": 3, "assignmentTimestamp": 8},
        ),
        (
            records.TARGET,
            "m",
            {TOPIC: (0, 1)},
            "target_assignment_member",
            {"memberId": "m"},
            {"topicPartitions": [{"topicId": SHOWN, "partitions": [0, 1]}]},
        ),
        (
            records.CURRENT,
            "m",
            Current(3, 2, 0, {TOPIC: {0: 3}}),
            "current_member_assignment",
            {"memberId": "m"},
            {
                "memberEpoch": 3,
                "previousMemberEpoch": 2,
                "state": 0,
                "assignedPartitions": [{"topicId": SHOWN, "partitions": [0], "assignmentEpochs": [3]}],
                "partitionsPendingRevocation": [],
            },
        ),
        (
            records.EXPRESSION,
            "t.*",
            Resolved(("t",), 4, 8),
            "regular_expression",
            {"regularExpression": "t.*"},
            {"topics": ["t"], "version": 4, "timestamp": 8},
        ),
        (records.LEGACY, "", None, "partition_metadata", {}, None),
    ],
)
def test_each_record_is_told_in_words(
    tmp_path: Path, key: int, name: str, value: object, kind: str, named: dict[str, str], payload: object
) -> None:
    written = [ConsumerRecord("g", one, key, name).encode() for one in (value, None)]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(encode_batch([Record(timestamp_ms=1, key=data, value=text) for data, text in written]))
    arguments = ["dump-log", "--files", str(segment), "--offsets-decoder", "--skip-record-metadata", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    shown, gone = [line for line in lines if line["kind"] == "record"]
    assert shown["key"] == gone["key"] == {"type": f"consumer_group_{kind}", "group": "g"} | named
    assert (shown["payload"], gone["payload"]) == (payload, None)
