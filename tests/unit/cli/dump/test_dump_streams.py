"""`penstock dump-log --offsets-decoder` says what the records of streams groups mean."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.coordinator.group.epochs import AssignmentEpoch
from penstock.coordinator.group.streams import records
from penstock.coordinator.group.streams.assignors.tasks import Roles
from penstock.coordinator.group.streams.description import DESCRIPTION, DescriptionValue
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.coordinator.group.streams.values import (
    STABLE,
    Copartition,
    Current,
    GroupEpoch,
    Held,
    InternalTopic,
    Member,
    Subtopology,
    Topology,
)
from penstock.protocol.messages.streams_group_topology_description_update import TopologyDescriptionSubtopology
from penstock.protocol.records import Record, encode_batch

TOPOLOGY = Topology(
    1,
    (
        Subtopology(
            "0",
            ("words",),
            (),
            (InternalTopic("g-counts-changelog", 0, 0, (("cleanup.policy", "compact"),)),),
            ("g-by-word-repartition",),
            (InternalTopic("g-by-word-repartition", 4, 3),),
            (Copartition((0,), (), (0,)),),
        ),
    ),
)
SHOWN_TOPOLOGY = {
    "epoch": 1,
    "subtopologies": [
        {
            "subtopologyId": "0",
            "sourceTopics": ["words"],
            "sourceTopicRegex": [],
            "stateChangelogTopics": [
                {
                    "name": "g-counts-changelog",
                    "partitions": 0,
                    "replicationFactor": 0,
                    "topicConfigs": [{"key": "cleanup.policy", "value": "compact"}],
                }
            ],
            "repartitionSinkTopics": ["g-by-word-repartition"],
            "repartitionSourceTopics": [
                {"name": "g-by-word-repartition", "partitions": 4, "replicationFactor": 3, "topicConfigs": []}
            ],
            "copartitionGroups": [{"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": [0]}],
        }
    ],
}


def ids(*partitions: int, **more: object) -> list[dict[str, object]]:
    return [{"subtopologyId": "0", "partitions": list(partitions)} | more]


@pytest.mark.parametrize(
    ("key", "name", "value", "kind", "payload"),
    [
        (records.GROUP, "", GroupEpoch(3, 5), "metadata", {"epoch": 3, "metadataHash": 5}),
        (
            records.GROUP,
            "",
            GroupEpoch(3, 5, 1, (("num.standby.replicas", "1"),), 1, 0),
            "metadata",
            {
                "epoch": 3,
                "metadataHash": 5,
                "validatedTopologyEpoch": 1,
                "lastAssignmentConfigs": [{"key": "num.standby.replicas", "value": "1"}],
                "storedDescriptionTopologyEpoch": 1,
                "failedDescriptionTopologyEpoch": 0,
            },
        ),
        (
            records.MEMBER,
            "m",
            Member("i", "r", "c", "/h", 7, 1, "p", ("host", 8080), (("zone", "a"),)),
            "member_metadata",
            {
                "instanceId": "i",
                "rackId": "r",
                "clientId": "c",
                "clientHost": "/h",
                "rebalanceTimeoutMs": 7,
                "topologyEpoch": 1,
                "processId": "p",
                "userEndpoint": {"host": "host", "port": 8080},
                "clientTags": [{"key": "zone", "value": "a"}],
            },
        ),
        (
            records.ASSIGNMENT,
            "",
            AssignmentEpoch(3, 9),
            "target_assignment_metadata",
            {"assignmentEpoch": 3, "assignmentTimestamp": 9},
        ),
        (
            records.TARGET,
            "m",
            Roles({"0": (0, 1)}, {"0": (2,)}),
            "target_assignment_member",
            {"activeTasks": ids(0, 1), "standbyTasks": ids(2), "warmupTasks": []},
        ),
        (
            records.CURRENT,
            "m",
            Current(3, 2, STABLE, Held({"0": {0: 3}}, {}, {"0": (4,)}), Held({"0": {1: 2}})),
            "current_member_assignment",
            {
                "memberEpoch": 3,
                "previousMemberEpoch": 2,
                "state": 1,
                "activeTasks": ids(0, assignmentEpochs=[3]),
                "standbyTasks": [],
                "warmupTasks": ids(4),
                "activeTasksPendingRevocation": ids(1, assignmentEpochs=[2]),
                "standbyTasksPendingRevocation": [],
                "warmupTasksPendingRevocation": [],
            },
        ),
        (records.TOPOLOGY, "", TOPOLOGY, "topology", SHOWN_TOPOLOGY),
        (
            DESCRIPTION,
            "",
            DescriptionValue(topology_epoch=1, subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0")]),
            "topology_description",
            {"topologyEpoch": 1, "subtopologies": [{"subtopologyId": "0", "nodes": []}], "globalStores": []},
        ),
    ],
)
def test_each_record_is_told_in_words(
    tmp_path: Path, key: int, name: str, value: object, kind: str, payload: object
) -> None:
    written = [StreamsRecord("g", one, key, name).encode() for one in (value, None)]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(encode_batch([Record(timestamp_ms=1, key=data, value=text) for data, text in written]))
    arguments = ["dump-log", "--files", str(segment), "--offsets-decoder", "--skip-record-metadata", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    shown, gone = [one for one in map(json.loads, result.stdout.splitlines()) if one["kind"] == "record"]
    named = {"memberId": name} if name else {}
    assert shown["key"] == gone["key"] == {"type": f"streams_group_{kind}", "group": "g"} | named
    assert (shown["payload"], gone["payload"]) == (payload, None)
