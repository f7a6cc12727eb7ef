"""Scenarios of Kafka 4.4's tests of static members of streams groups, under their names."""

from collections.abc import Mapping
from typing import Final

import pytest
from tests.unit.coordinator.group.streams.bench import NOW
from tests.unit.coordinator.group.streams.script import ONE, Beat, Is, Scenario, Script, Wait
from tests.unit.coordinator.group.streams.test_transcripts import AT_MOST_TWO, FOUR, FOUR_OF_FOO, gone

from penstock.coordinator.group.settings import GroupSettings
from penstock.protocol.errors import ErrorCode

AT_MOST_ONE: Final = GroupSettings(streams=NOW.replace(max_size=1))


def static(member: str, epoch: int, *rest: object, instance: str = "i1", process: str = "p", **more: object) -> Beat:
    """A heartbeat of a static member."""
    fields = {"instance_id": instance} | ({"process_id": process} if epoch == 0 else {})
    given: dict[str, object] = {"fields": {**fields, **more.pop("fields", {})}} | more  # type: ignore[dict-item]
    return Beat(member, epoch, *rest, **given)  # type: ignore[arg-type]


HERE: Final = Is(FOUR, instance="i1")
AWAY: Final = Is(FOUR, "-2/9", instance="i1")
PART_AWAY: Final = Is("s1:0,1", "-2/10", instance="i1", process="p1")
REST: Final = Is("s1:2,3", process="p2")
NOUGHT: Final = "s1:0@0,1@0,2@0,3@0"
TAKES_OVER: Final = [
    *gone("m1"),
    *("member n1 i1", f"target n1 {FOUR}", f"current n1 0/0 stable {NOUGHT}", f"current n1 10/0 stable {NOUGHT}"),
]
FULL: Final = {"m1": Is(instance="i1"), "m2": Is("", "-2/9", instance="i2")}
STATIC: Final[Mapping[str, Scenario]] = {
    "testUnknownStaticMemberLeaveStreamsGroup": Scenario(
        [static("x", -2, ErrorCode.UNKNOWN_MEMBER_ID, instance="other")], {"m1": HERE}
    ),
    "testStreamsStaticJoinWithNewInstanceAtMaxSizeThrowsGroupMaxSizeReached": Scenario(
        [static("x", 0, ErrorCode.GROUP_MAX_SIZE_REACHED, instance="other")], FULL, settings=AT_MOST_TWO
    ),
    "testStreamsStaticRejoinWithLeaveGroupStaticEpochAtMaxSizeSucceeds": Scenario(
        [static("x", 0, "10 -", instance="i2")], FULL, settings=AT_MOST_TWO
    ),
    "testStreamsStaticJoinWithUnreleasedInstanceThrowsUnreleasedInstanceIdAtMaxSize": Scenario(
        [static("x", 0, ErrorCode.UNRELEASED_INSTANCE_ID)], {"m1": HERE}, settings=AT_MOST_ONE
    ),
    "testStaticMemberSendHeartbeatWithVariousEpochThenThrowError": Scenario(
        [static("x", 0, ErrorCode.UNRELEASED_INSTANCE_ID), static("x", 1_000, ErrorCode.FENCED_INSTANCE_ID)],
        {"m1": HERE},
    ),
    "testStaticMemberJoinThenRevokeAndReceiveTasks": Scenario(
        [
            {"m1": "s1:0,1", "m2": "s1:2,3", "n2": "s1:2,3"},
            static("m2", 0, "11 -", instance="i2", process="p2"),
            static("m1", 10, "10 s1:0,1"),
            static("m1", 10, "11", said="s1:0,1"),
            static("m2", 11, "11 s1:2,3", instance="i2"),
            static("m2", -2, "-2", instance="i2"),
            static("n2", 0, "11 s1:2,3", instance="i2", process="p2"),
        ],
        {"m1": HERE},
        topics=FOUR_OF_FOO,
        topology=ONE,
        settings=AT_MOST_TWO,
    ),
    "testStaticMemberRejoinWithUpdatedProcessIdBumpsStreamsGroupEpoch": Scenario(
        [
            {"n1": FOUR},
            static(
                *("n1", 0, f"11 {FOUR}"),
                [
                    *gone("m1"),
                    *("member n1 i1", f"target n1 {FOUR}", f"current n1 0/0 stable {NOUGHT}"),
                    *("member n1 i1 p2", "epoch 11", "assignment 11", f"current n1 11/0 stable {NOUGHT}"),
                ],
                process="p2",
            ),
        ],
        {"m1": AWAY},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberRejoinWithSameProcessIdDoesNotBumpStreamsGroupEpoch": Scenario(
        [static("n1", 0, f"10 {FOUR}", TAKES_OVER)], {"m1": AWAY}, topics=FOUR_OF_FOO, topology=ONE
    ),
    "testStaticMemberLeaveWithMinusOneFencesMemberAndBumpsStreamsGroupEpoch": Scenario(
        [static("m1", -1, "-1", [*gone("m1"), "epoch 11", "assignment 11 at once"])],
        {"m1": HERE},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpoch": Scenario(
        [static("m1", -2, "-2", [f"current m1 -2/9 stable {NOUGHT}"])],
        {"m1": HERE._replace(gives="s1:2,3")},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochThenShouldBeIdempotence": Scenario(
        [static("m1", -2, "-2", [f"current m1 -2/9 stable {NOUGHT}"])],
        {"m1": AWAY},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochAndRejoinWithNewMemberId": Scenario(
        [static("m1", 10, "10", []), static("m1", -2, "-2"), static("n1", 0, f"10 {FOUR}", TAKES_OVER)],
        {"m1": HERE},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochAndRejoinWithSameMemberId": Scenario(
        [
            static("m1", -2, "-2"),
            static("m1", 0, f"10 {FOUR}", [line.replace("n1", "m1") for line in TAKES_OVER]),
        ],
        {"m1": HERE},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochFromUnrevokedState": Scenario(
        [static("m1", -2, "-2", ["current m1 -2/9 unrevoked s1:0@0,1@0"])],
        {"m1": Is("s1:0,1", state="unrevoked", gives="s1:2,3", instance="i1")},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberRejoinsAfterTemporaryLeave": Scenario(
        [static("n1", 0, "10 s1:0,1")],
        {"m1": Is("s1:0,1", "-2/9", instance="i1")},
        topics=FOUR_OF_FOO,
        topology=ONE,
        state="Stable",
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochFromUnreleasedState": Scenario(
        [static("m1", -2, "-2", ["current m1 -2/9 unreleased s1:0@0,1@0"])],
        {"m1": Is("s1:0,1", state="unreleased", target="s1:0,1,2", instance="i1")},
        topics={"foo": 3},
        topology=ONE,
    ),
    "testStaticMemberRejoinsAfterTemporaryLeaveFromUnreleasedState": Scenario(
        [static("n1", 0, "10 s1:0,1", process="p1")],
        {
            "m1": Is("s1:0,1", "-2/9", "unreleased", target="s1:0,1,2", instance="i1", process="p1"),
            "m2": Is("", "10/9", "unrevoked", "s1:2", process="p2"),
        },
        topics={"foo": 3},
        topology=ONE,
        state="Reconciling",
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochFromUnrevokedStateAllowsUnreleasedMemberToProgress": Scenario(
        [
            static("m1", -2, "-2", ["current m1 -2/9 unrevoked s1:0@0,1@0"]),
            Beat("m2", 10, "10 s1:2", ["current m2 10/10 stable s1:2@10"]),
        ],
        {
            "m1": Is("s1:0,1", "10/9", "unrevoked", "s1:2", instance="i1"),
            "m2": Is("", "10/10", "unreleased", target="s1:2", process="p2"),
        },
        topics={"foo": 3},
        topology=ONE,
    ),
    "testStaticMemberLeaveWithLeaveGroupStaticMemberEpochAndRejoinAndOtherRackIdThenGroupBumpOccur": Scenario(
        [
            static("m1", 10, "10", [], fields={"rack_id": "r1"}),
            static("m1", -2, "-2", fields={"rack_id": "r1"}),
            {"n1": FOUR},
            static(
                *("n1", 0, f"11 {FOUR}"),
                [
                    *gone("m1"),
                    *("member n1 i1", f"target n1 {FOUR}", f"current n1 0/0 stable {NOUGHT}"),
                    *("member n1 i1", "epoch 11", "assignment 11", f"current n1 11/0 stable {NOUGHT}"),
                ],
                fields={"rack_id": "r2"},
            ),
        ],
        {"m1": HERE._replace(rack="r1")},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticMemberLeaveWithMismatchedMemberIdThrowsFencedInstanceIdInStreamsGroup": Scenario(
        [static("x", -1, ErrorCode.FENCED_INSTANCE_ID), static("x", -2, ErrorCode.FENCED_INSTANCE_ID)], {"m1": HERE}
    ),
    "testUnknownStaticMemberHeartbeatWithPositiveEpochThrowsUnknownMemberIdInStreamsGroup": Scenario(
        [static("x", 10, ErrorCode.UNKNOWN_MEMBER_ID, instance="other")], {"m1": HERE}
    ),
    "testStreamsStaticMemberHeartbeatWithPreviousEpochAndOwnedActiveTasks": Scenario(
        [
            static("m1", 9, ErrorCode.FENCED_MEMBER_EPOCH),
            static("m1", 9, ErrorCode.FENCED_MEMBER_EPOCH, said="s1:0,1,2,3,4"),
            static("m1", 9, f"10 {FOUR}", [], said="s1:0,1"),
        ],
        {"m1": HERE},
        topics={"foo": 5},
        topology=ONE,
    ),
    "testStreamsStaticMemberTemporaryLeaveSessionTimeoutExpiration": Scenario(
        [static("m1", -2, "-2"), Wait(45_001, [*gone("m1"), "epoch 11", "assignment 11 at once"])],
        {"m1": HERE},
        topics=FOUR_OF_FOO,
        topology=ONE,
        state="Empty",
    ),
    "testStaticMemberJoinEmptyStreamsGroupRegistersStaticMember1": Scenario(
        [
            {"m1": FOUR},
            static("m1", 0, f"2 {FOUR}"),
            static("x", 0, ErrorCode.UNRELEASED_INSTANCE_ID),
        ],
        topics=FOUR_OF_FOO,
        topology=ONE,
        is_new=True,
    ),
    # -- beside dynamic ones ------------------------------------------------------------------------------------------
    "testDynamicJoinFailsAtMaxSizeWhileStaticMemberIsTemporarilyLeftAndDynamicMemberStillExists": Scenario(
        [Beat("x", 0, ErrorCode.GROUP_MAX_SIZE_REACHED)], {"m1": PART_AWAY, "m2": REST}, settings=AT_MOST_TWO
    ),
    "testStaticRejoinSucceedsAtMaxSizeWhileDynamicMemberStillExists": Scenario(
        [static("n1", 0, "10 s1:0,1", process="p1"), Beat("m2", 10, "10", [])],
        {"m1": PART_AWAY, "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
        settings=AT_MOST_TWO,
    ),
    "testDynamicJoinSucceedsAfterTemporarilyLeftStaticMemberSessionTimeoutInMixedGroup": Scenario(
        [
            static("m1", -2, "-2"),
            Wait(1),
            Beat("m2", 10, "10", []),
            Wait(45_000 - 1, [*gone("m1"), "epoch 11"]),
            {"m2": "s1:2,3", "m3": "s1:0,1"},
            Beat("m3", 0, "12 s1:0,1", fields={"process_id": "p3"}),
        ],
        {"m1": PART_AWAY._replace(epochs="10/9"), "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
        settings=AT_MOST_TWO,
    ),
    "testStaticTemporaryLeaveDoesNotTransferTasksToExistingDynamicMember": Scenario(
        [static("m1", -2, "-2"), Beat("m2", 10, "10", [])],
        {"m1": PART_AWAY._replace(epochs="10/9"), "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
    "testStaticRejoinWithUpdatedProcessIdRecomputesTargetAssignmentAndDynamicMemberReconcilesInMixedGroup": Scenario(
        [
            {"n1": "s1:0", "m2": "s1:1,2,3"},
            static("n1", 0, "11 s1:0", process="p9"),
            Beat("m2", 10, "11 s1:1,2,3"),
        ],
        {"m1": PART_AWAY, "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
        state="Stable",
    ),
    "testStaticRejoinWithSameProcessIdDoesNotBumpEpochAndDynamicHeartbeatRemainsNoOpInMixedGroup": Scenario(
        [static("n1", 0, "10 s1:0,1", process="p1"), Beat("m2", 10, "10", [])],
        {"m1": PART_AWAY, "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
        state="Stable",
    ),
    "testOldStaticMemberIdIsFencedAfterReplacementInMixedGroup": Scenario(
        [static("n1", 0, "10 s1:0,1", process="p1"), static("m1", 10, ErrorCode.FENCED_INSTANCE_ID)],
        {"m1": PART_AWAY, "m2": REST},
        topics=FOUR_OF_FOO,
        topology=ONE,
    ),
}


@pytest.mark.parametrize("name", STATIC)
def test_as_kafkas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Script(STATIC[name], monkeypatch).play()
