"""Scenarios of Kafka 4.4's tests of streams groups, under their names: what members hear, and what is written.

Where Kafka's test looks at one thing alone, so does the row.
"""

from collections.abc import Mapping
from typing import Final

import pytest
from tests.unit.coordinator.group.streams.bench import NOW
from tests.unit.coordinator.group.streams.script import DELAYED, ONE, Beat, Is, Scenario, Script, Wait

from penstock.coordinator.group.settings import Bounded, GroupSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, TopicInfo, Topology

SIX: Final = "s1:0,1,2,3,4,5"
SIX_SINCE: Final = "s1:0@10,1@10,2@10,3@10,4@10,5@10"
FOUR: Final = "s1:0,1,2,3"
FOO: Final = {"foo": 6}
FOUR_OF_FOO: Final = {"foo": 4}
TWO: Final = {
    "m1": Is("s1:0,1,2 s2:0,1", process="p1"),
    "m2": Is("s1:3,4,5 s2:2", process="p2"),
}
GROWN: Final = Beat(
    *("m", 10, f"11 {SIX}"),
    [
        *("epoch 11", f"target m {SIX}", "assignment 11"),
        "current m 11/10 stable s1:0@10,1@10,2@10,3@11,4@11,5@11",
    ],
)
"""The topic has three partitions more than the member knows."""
DELAY: Final = GroupSettings(streams=NOW.replace(initial_rebalance_delay=Bounded(1_000, 0, 1_000)))
INTERVAL: Final = GroupSettings(streams=NOW.replace(assignment_interval=Bounded(5_000, 0, 5_000)))
AT_MOST_TWO: Final = GroupSettings(streams=NOW.replace(max_size=2))
AT_MOST_ONE: Final = GroupSettings(streams=NOW.replace(max_size=1))
CHANGELOG: Final = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="s1", source_topics=["foo"], state_changelog_topics=[TopicInfo(name="bar")])
    ],
)
TOGETHER: Final = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(
            subtopology_id="s1",
            source_topics=["foo", "bar"],
            copartition_groups=[CopartitionGroup(source_topics=[0, 1])],
        )
    ],
)
NEWER: Final = Topology(epoch=1, subtopologies=ONE.subtopologies)


def gone(*members: str) -> list[str]:
    return [line for name in members for line in (f"-current {name}", f"-target {name}", f"-member {name}")]


FIRST: Final = ["member m", "topology", "epoch 2 not ready", "target m", "assignment 2", "current m 2/0 stable"]
GROUPS: Final[Mapping[str, Scenario]] = {
    "testStreamsGroupMemberCanRejoinWithEpochZero": Scenario(
        [Beat("m", 0, "100 s1:0,1,2")], {"m": Is("s1:0,1,2", "100/99")}, 100, {"foo": 3}, ONE
    ),
    "testUnknownStreamsGroupId": Scenario([Beat("m", 100, ErrorCode.GROUP_ID_NOT_FOUND)], is_new=True),
    "testUnknownMemberIdJoinsStreamsGroup": Scenario(
        [Beat("m", 0, "2 -"), Beat("m2", 1, ErrorCode.UNKNOWN_MEMBER_ID)], is_new=True
    ),
    "testStreamsGroupMemberEpochValidation": Scenario(
        [
            Beat("m", 200, ErrorCode.FENCED_MEMBER_EPOCH),
            Beat("m", 50, ErrorCode.FENCED_MEMBER_EPOCH),
            Beat("m", 99, ErrorCode.FENCED_MEMBER_EPOCH),
            Beat("m", 99, "100 s1:1,2,3", said="s1:1,2"),
        ],
        {"m": Is("s1:1,2,3", "100/99")},
        100,
        FOO,
        ONE,
    ),
    "testStreamsOwnedTasksValidation": Scenario(
        [
            Beat("m", 10, ErrorCode.INVALID_REQUEST, [], said="other:0"),
            Beat("m", 10, ErrorCode.INVALID_REQUEST, [], said="s1:6"),
        ],
        {"m": Is(SIX)},
        topics=FOO,
        topology=ONE,
    ),
    "testStreamsNewMemberIsRejectedWithMaximumMembersIsReached": Scenario(
        [Beat("m3", 0, ErrorCode.GROUP_MAX_SIZE_REACHED, [])], {"m1": Is(), "m2": Is()}, settings=AT_MOST_TWO
    ),
    "testMemberJoinsEmptyStreamsGroup": Scenario(
        [
            {"m": f"{SIX} s2:0,1,2"},
            Beat(
                *("m", 0, f"2 {SIX} s2:0,1,2"),
                [
                    *("member m", "topology", "epoch 2", f"target m {SIX} s2:0,1,2", "assignment 2"),
                    "current m 2/0 stable s1:0@2,1@2,2@2,3@2,4@2,5@2 s2:0@2,1@2,2@2",
                ],
            ),
        ],
        is_new=True,
        state="Stable",
    ),
    "testStreamsGroupMemberJoiningWithMissingSourceTopic": Scenario(
        [Beat("m", 0, "2 -", FIRST, statuses=[1])], topics=FOO, is_new=True, state="NotReady"
    ),
    "testStreamsGroupMemberJoiningWithMissingInternalTopic": Scenario(
        [Beat("m", 0, "2 -", FIRST, statuses=[3])], topics=FOO, topology=CHANGELOG, is_new=True, state="NotReady"
    ),
    "testStreamsGroupMemberJoiningWithIncorrectlyPartitionedTopic": Scenario(
        [Beat("m", 0, "2 -", FIRST, statuses=[2])], topology=TOGETHER, is_new=True, state="NotReady"
    ),
    "testStreamsGroupMemberJoiningWithStaleTopology": Scenario(
        [
            Beat(
                *("m", 0, "11 -", ["member m", "epoch 11", "target m", "assignment 11", "current m 11/0 stable"]),
                statuses=[0],
                fields={"topology": ONE},
            )
        ],
        topology=NEWER,
        topics=FOO,
    ),
    "testStreamsGroupMemberRequestingShutdownApplication": Scenario(
        [
            Beat("m1", 10, "10", [], statuses=[4], fields={"shutdown_application": True}),
            Beat("m2", 10, "10", [], statuses=[4]),
        ],
        TWO,
    ),
    "testStreamsGroupMemberRequestingShutdownApplicationUponLeaving": Scenario(
        [
            Beat("m1", -1, "-1", [*gone("m1"), "epoch 11"], fields={"shutdown_application": True}),
            Beat("m2", 10, "11", statuses=[4]),
        ],
        {"m1": Is(), "m2": Is()},
    ),
    "testStreamsUpdatingMemberMetadataTriggersNewTargetAssignment": Scenario(
        [
            {"m": f"{SIX} s2:0,1,2"},
            Beat(
                *("m", 10, f"11 {SIX} s2:0,1,2"),
                [
                    *("member m p2", "epoch 11", f"target m {SIX} s2:0,1,2", "assignment 11"),
                    f"current m 11/10 stable {SIX_SINCE} s2:0@11,1@11,2@11",
                ],
                fields={"process_id": "p2"},
            ),
        ],
        {"m": Is(SIX)},
    ),
    "testStreamsUpdatingPartitionMetadataTriggersNewTargetAssignment": Scenario(
        [
            {"m": f"{SIX} s2:0,1,2"},
            Beat(
                *("m", 10, f"11 {SIX} s2:0,1,2"),
                [
                    *("epoch 11", f"target m {SIX} s2:0,1,2", "assignment 11"),
                    f"current m 11/10 stable {SIX_SINCE} s2:0@11,1@11,2@11",
                ],
            ),
        ],
        {"m": Is(SIX)},
        topics={"foo": 6, "bar": 6},
        known={"foo": 6, "bar": 3},
    ),
    "testStreamsNewJoiningMemberTriggersNewTargetAssignment": Scenario(
        [
            {"m1": "s1:0,1 s2:0", "m2": "s1:2,3 s2:1", "m3": "s1:4,5 s2:2"},
            Beat("m3", 0, "11 -", fields={"process_id": "p3"}),
        ],
        TWO,
    ),
    "testStreamsLeavingMemberRemovesMemberAndBumpsGroupEpoch": Scenario(
        [Beat("m2", -1, "-1", [*gone("m2"), "epoch 11"])], TWO
    ),
    "testStreamsGroupHeartbeatPartialResponseWhenNothingChanges": Scenario(
        [{"m": "s1:0,1"}, Beat("m", 0, "2 s1:0,1"), Beat("m", 2, "2", [])],
        topics={"foo": 2},
        topology=ONE,
        is_new=True,
    ),
    "testStreamsInitialRebalanceDelayEmptyDuringDelayAssignsAfterTimer": Scenario(
        [
            Beat("m", 0, "1 -", statuses=[DELAYED]),
            {"m": "s1:0,1"},
            Wait(10_000, ["target m s1:0,1", "assignment 2"]),
            Beat("m", 1, "2 s1:0,1", ["current m 2/1 stable s1:0@2,1@2"], said=""),
        ],
        topics={"foo": 2},
        topology=ONE,
        settings=DELAY,
        is_new=True,
    ),
    "testStreamsRebalanceDelayWhenJoiningEmptyGroupWithNonZeroEpoch": Scenario(
        [
            {"m": "s1:0,1"},
            Beat("m", 0, "10 -", statuses=[DELAYED]),
            Wait(2_000, ["target m s1:0,1", "assignment 11"]),
            Beat("m", 10, "11 s1:0,1", said=""),
        ],
        topics={"foo": 2},
        topology=ONE,
        settings=DELAY,
    ),
    "testStreamsReconciliationProcess": Scenario(
        [
            {"m1": "s1:0,1 s2:0", "m2": "s1:2,3 s2:2", "m3": "s1:4,5 s2:1"},
            Beat(
                *("m3", 0, "11 -"),
                [
                    *("member m3 p3", "epoch 11", "target m1 s1:0,1 s2:0", "target m2 s1:2,3 s2:2"),
                    *("target m3 s1:4,5 s2:1", "assignment 11", "current m3 11/0 unreleased"),
                ],
                fields={"process_id": "p3"},
            ),
            Beat(
                *("m1", 10, "10 s1:0,1 s2:0"),
                ["current m1 10/10 unrevoked s1:0@10,1@10 s2:0@10 -s1:2@10 -s2:1@10"],
            ),
            Beat("m2", 10, "10 s1:3 s2:2", ["current m2 10/10 unrevoked s1:3@10 s2:2@10 -s1:4@10,5@10"]),
            Beat("m3", 11, "11", ["current m3 11/11 unreleased"]),
            Beat("m1", 10, "11", ["current m1 11/10 stable s1:0@10,1@10 s2:0@10"], said="s1:0,1 s2:0"),
            Beat("m2", 10, "10", []),
            Beat("m3", 11, "11 s2:1", ["current m3 11/11 unreleased s2:1@11"]),
            Beat("m3", 11, "11", []),
            Beat(
                *("m2", 10, "11 s1:2,3 s2:2", ["current m2 11/10 stable s1:2@11,3@10 s2:2@10"]),
                said="s1:3 s2:2",
            ),
            Beat("m3", 11, "11 s1:4,5 s2:1", ["current m3 11/11 stable s1:4@11,5@11 s2:1@11"], said="s2:1"),
        ],
        TWO,
        state="Stable",
    ),
    "testStreamsPartitionMetadataRefreshedAfterGroupIsLoaded": Scenario(
        [
            {"m": SIX},
            GROWN,
        ],
        {"m": Is("s1:0,1,2")},
        topics=FOO,
        known={"foo": 3},
        topology=ONE,
    ),
    "testStreamsPartitionMetadataRefreshedAgainAfterWriteFailure": Scenario(
        [
            {"m": SIX},
            Beat("m", 10, ErrorCode.COORDINATOR_NOT_AVAILABLE, [], fails=True),
            GROWN,
        ],
        {"m": Is("s1:0,1,2")},
        topics=FOO,
        known={"foo": 3},
        topology=ONE,
    ),
    "testStreamsSessionTimeoutLifecycle": Scenario(
        [
            {"m": SIX},
            Beat("m", 0, f"2 {SIX}"),
            Wait(44_000),
            Beat("m", 2, "2", []),
            Wait(44_000),
            Beat("m", -1, "-1", [*gone("m"), "epoch 3", "assignment 3 at once"]),
            Wait(60_000),
        ],
        topics=FOO,
        topology=ONE,
        is_new=True,
        state="Empty",
    ),
    "testStreamsSessionTimeoutExpiration": Scenario(
        [
            {"m": SIX},
            Beat("m", 0, f"2 {SIX}"),
            Wait(45_001, [*gone("m"), "epoch 3", "assignment 3 at once"]),
        ],
        topics=FOO,
        topology=ONE,
        is_new=True,
        state="Empty",
    ),
    "testStreamsRebalanceTimeoutLifecycle": Scenario(
        [
            {"m1": "s1:0,1,2"},
            Beat("m1", 0, "2 s1:0,1,2", fields={"rebalance_timeout_ms": 12_000}),
            Wait(5_000),
            {"m1": "s1:0,1", "m2": "s1:2"},
            Beat("m2", 0, "3 -", fields={"rebalance_timeout_ms": 90_000, "process_id": "p2"}),
            Wait(5_000),
            Beat("m1", 2, "2 s1:0,1"),
            Wait(5_000),
            Beat("m1", 2, "3", said="s1:0,1"),
            Wait(20_000),
        ],
        topics={"foo": 3},
        topology=ONE,
        is_new=True,
    ),
    "testStreamsRebalanceTimeoutExpiration": Scenario(
        [
            {"m1": "s1:0,1,2"},
            Beat("m1", 0, "2 s1:0,1,2", fields={"rebalance_timeout_ms": 10_000}),
            Wait(5_000),
            {"m1": "s1:0,1", "m2": "s1:2"},
            Beat("m2", 0, "3 -", fields={"rebalance_timeout_ms": 10_000, "process_id": "p2"}),
            Wait(5_000),
            Beat("m1", 2, "2 s1:0,1"),
            Wait(10_001, [*gone("m1"), "epoch 4"]),
        ],
        topics=FOO,
        topology=ONE,
        is_new=True,
    ),
    "testStreamsGroupAssignmentInterval": Scenario(
        [
            {"m1": SIX},
            Beat("m1", 0, f"2 {SIX}"),
            Wait(4_995),
            {"m1": "s1:0,1,2", "m2": "s1:3,4,5"},
            Beat(
                *("m2", 0, "2 -", ["member m2 p2", "epoch 3", "current m2 2/0 stable"]),
                statuses=[DELAYED],
                fields={"process_id": "p2"},
            ),
            Wait(10),
            Beat(
                *("m2", 2, "3"),
                ["target m1 s1:0,1,2", "target m2 s1:3,4,5", "assignment 3", "current m2 3/2 unreleased"],
            ),
        ],
        topics=FOO,
        topology=ONE,
        settings=INTERVAL,
        is_new=True,
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_as_kafkas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Script(GROUPS[name], monkeypatch).play()
