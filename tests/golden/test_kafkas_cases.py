"""Each case of four of Kafka's own tests of share groups, one for one: the row or test here, or why there is none.

`kafkas_cases` has the names. A case of `SharePartitionTest` that has a row of its own name in `share_partitions` needs
no word here. In those rows a share partition begins behind what is finished as soon as it is: Kafka moves the beginning
with the next acknowledgement, so after the log has begun later it tells a smaller one for a while.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
LISTS = sorted(path.stem for path in (HERE / "kafkas_cases").glob("*.txt"))

ROWS = {
    "gaps: Several gaps, and what came back between them.": "MaybeInitializeAndAcquireWithMultipleBatches",
    "gaps: A gap that the log has no records for: it is finished, and the share partition begins behind it.": """
        AcquireCachedStateInitialGapMatchesWithActualPartitionGap ComputeStartOffsetAdvanceResultWhenGapAtBeginning""",
    "gaps: Compaction has taken the beginning of the gap.": """
        AcquireCachedStateInitialGapOverlapsWithActualPartitionGap""",
    "loading: All is finished: it begins behind.": "MaybeInitializeWhenReadStateRpcReturnsZeroAvailableRecords",
    "acquiring: Nothing was read for a member that wants nothing.": "AcquireWithEmptyFetchRecords",
    "acquiring: A single record.": "CanAcquireRecordsWithEmptyCache",
    "acquiring: Fenced: nothing is given away.": "MaybeInitializeFencedSharePartition",
    "acquiring: Released records that are still being written are not given away, and nobody reads there.": """
        AcquireWithWriteShareGroupStateDelay""",
    "acknowledging: One type for each record: a gap, three ends, and a record that stays.": """
        AckTypeToRecordStateMapping""",
    "locks: Nor while that is written.": "AcquisitionLockTimeoutWithConcurrentAcknowledgement",
    "locks: The write failed after the last lock had run out: the record is given up.": """
        RecordArchivedWithWriteStateRPCFailure""",
    "locks: What ran out cannot be renewed.": "RenewAcknowledgeOnExpiredBatch",
    "locks: Nor where the group forbids it.": """
        RenewAcknowledgeDisabledWithCompleteBatchAck RenewAcknowledgeDisabledWithPerOffsetAck""",
    "log_start: Locks of what is gone.": """
        TerminalRecordsNotUpdatedWhenBatchesBeforeStartOffsetAreExpired
        TerminalRecordsNotUpdatedWhenOffsetsBeforeStartOffsetAreExpired""",
    "log_start: What somebody has is gone as well: what is said of it is of no consequence.": """
        TerminalRecordsNotUpdatedWhenOffsetsBeforeStartOffsetAreExpiredAfterAcknowledgements""",
    "aborted: One of three batches.": """
        AcquireWithReadCommittedIsolationLevel FilterRecordBatchesFromAcquiredRecords
        FetchAbortedTransactionRecordBatchesForAbortedAndCommittedTransactions""",
    "aborted: All: nobody gets anything, and it goes on behind.": """
        FetchAbortedTransactionRecordBatchesForOnlyAbortedTransactions
        TerminalRecordsUpdatedWhenAbortedTransactionBatchesAreArchived""",
    "aborted: A part of what was acquired at once.": "TerminalRecordsUpdatedWhenAbortedTransactionOffsetsAreArchived",
    "record_limit: The rest of the batch of the log is there for others, and nobody had it yet.": """
        AcquireSingleBatchInRecordLimitMode""",
    "record_limit: Accepted one by one: it begins behind them.": """
        AcquireAndAcknowledgeMultipleSubsetRecordInRecordLimitMode""",
    "record_limit: Locks of a part.": """
        AcquisitionLockOnReleasingAcknowledgedMultipleSubsetRecordBatchWithGapOffsetsInRecordLimitMode""",
    "dead_letters: The last of the deliveries fails: the letter says how the first one did, and the last.": """
        AcquisitionLockTimeoutWithDlqEnabledPerOffsetBatch""",
    "dead_letters: A lock that ran out is over, also if that could not be written down.": """
        AcquisitionLockTimeoutWithDlqEnabledWriteFailurePerOffsetBatch
        AcquisitionLockTimeoutWithDlqPhase1FailsPhase2SucceedsPerOffsetBatch""",
    "dead_letters: A record that is rejected becomes a dead letter once that is written down, and is finished when the "
    "letter is written.": "InitiateDLQAndArchive",
}
"""A row of `share_partitions` to the cases that it stands for, without their `test`."""

NODE = "unit/node/sharing"
SHARD = "unit/coordinator/share/test_shares.py"
SESSIONS, FETCH = f"{NODE}/test_share_sessions.py", f"{NODE}/test_share_fetch.py"
KILLED = "cluster/test_share_groups_killed.py"
ASSIGNOR = "unit/coordinator/group/share/test_assignor.py"

ELSEWHERE = {
    f"{FETCH}::test_where_a_group_begins": """
        MaybeInitializeDefaultStartEpochGroupConfigReturnsEarliest
        MaybeInitializeDefaultStartEpochGroupConfigReturnsLatest
        MaybeInitializeDefaultStartEpochGroupConfigReturnsByDuration
        MaybeInitializeDefaultStartEpochGroupConfigNotPresent""",
    f"{FETCH}::test_settings_of_a_group": """
        ScheduleAcquisitionLockTimeoutValueFromGroupConfig ScheduleAcquisitionLockTimeoutValueUpdatesSuccessfully
        MaxDeliveryCountUsesGroupConfigWhenPresent MaxDeliveryCountFallsBackToDefaultWhenNoGroupConfig
        MaxInFlightRecordsUsesGroupConfigWhenPresent MaxInFlightRecordsFallsBackToDefaultWhenNoGroupConfig
         """,
    f"{FETCH}::test_what_cannot_be_said": """
        InvalidAcknowledgeTypeInBatchAcknowledgement InvalidAcknowledgeTypeInSubsetAcknowledgement
        FetchAckTypeMapForBatch""",
    f"{FETCH}::test_records_of_an_aborted_transaction_are_finished": "ContainsAbortMarker",
    f"{SESSIONS}::test_a_state_that_cannot_be_read_is_told_and_read_anew": """
        MaybeInitializeWithErrorPartitionResponse MaybeInitializeWithReadException""",
    f"{SESSIONS}::test_what_cannot_be_written_is_taken_back": """
        WriteShareGroupStateWithWriteException WriteShareGroupStateFailure""",
    f"{NODE}/test_persister.py::test_what_is_due_in_one_turn_goes_together_by_group": """
        WriteShareGroupState WriteShareGroupStateWithEqualButDistinctTopicIdResponse
        MaybeInitializeWithEqualButDistinctTopicIdResponse""",
    f"{NODE}/test_persister.py::test_an_answer_about_something_else_is_an_error": """
        MaybeInitializeWithInvalidTopicIdResponse MaybeInitializeWithInvalidPartitionResponse
        MaybeInitializeWithEmptyTopicsData WriteShareGroupStateWithInvalidTopicsData""",
    # ShareFetchAcknowledgeRequestTest
    f"{FETCH}::test_below_its_level_it_is_not_known": """
        ShareFetchRequestIsInAccessibleWhenConfigsDisabled ShareAcknowledgeRequestIsInAccessibleWhenConfigsDisabled""",
    f"{SESSIONS}::test_another_leader_is_named_and_gets_what_is_written": "ShareFetchRequestToNonLeaderReplica",
    f"{SESSIONS}::test_records_are_fetched_accepted_and_gone": """
        ShareFetchRequestSuccess ShareAcknowledgeRequestSuccessAccept""",
    f"{FETCH}::test_large_batches_of_many_partitions_come_one_after_the_other": """
        ShareFetchRequestSuccessMultiplePartitions""",
    "wire/test_share_consumers.py::test_records_are_accepted_rejected_and_come_again": """
        ShareAcknowledgeRequestSuccessRelease ShareAcknowledgeRequestSuccessReject""",
    f"{FETCH}::test_who_accepts_within_a_fetch_gets_the_next_with_the_answer": "ShareFetchRequestPiggybackedAccept",
    f"{NODE}/test_share_delays.py::test_what_is_released_waits_and_the_time_is_written": """
        ShareFetchRequestPiggybackedRelease""",
    f"{NODE}/test_dead_letters.py::test_a_rejected_record_has_a_letter_that_says_why_and_is_archived_then": """
        ShareFetchRequestPiggybackedReject""",
    "wire/test_share_consumers.py::test_a_record_that_is_never_accepted_is_given_up": """
        ShareAcknowledgeRequestMaxDeliveryAttemptExhausted""",
    "wire/test_share_consumers.py::test_members_share_one_partition": """
        ShareFetchRequestSuccessfulSharingBetweenMultipleConsumers""",
    f"{FETCH}::test_each_group_has_all_records": """
        ShareFetchRequestNoSharingBetweenMultipleConsumersFromDifferentGroups""",
    f"{SESSIONS}::test_a_session_that_ends_gives_back_what_it_has": """
        ShareSessionCloseWithShareFetch ShareSessionCloseWithShareAcknowledge""",
    f"{SESSIONS}::test_epochs_of_sessions": """
        ShareFetchInitialEpochWithAcknowledgements ShareAcknowledgeInitialRequestError
        ShareFetchRequestInvalidShareSessionEpoch ShareAcknowledgeRequestInvalidShareSessionEpoch
        ShareFetchRequestShareSessionNotFound ShareAcknowledgeRequestShareSessionNotFound""",
    f"{SESSIONS}::test_a_connection_that_is_lost_gives_back_what_its_sessions_have": """
        ShareSessionEvictedOnConnectionDrop""",
    f"{FETCH}::test_what_is_forgotten_is_fetched_no_longer": "ShareFetchRequestForgetTopicPartitions",
    f"{FETCH}::test_batches_are_of_the_size_asked_for_and_hold_the_records_asked_for": """
        ShareFetchRequestWithMaxRecordsAndBatchSize ShareFetchRequestMultipleBatchesWithMaxRecordsAndBatchSize""",
    f"{KILLED}::test_no_record_is_lost_and_none_comes_again_once_accepted": """
        ShareFetchRequestSuccessMultiplePartitionsMultipleBrokers""",
    # ShareCoordinatorShardTest
    f"{SHARD}::test_what_is_written_is_read": """
        WriteStateSuccess ReadStateSuccess ReadStateSummarySuccess InitializeStateSuccess""",
    f"{SHARD}::test_updates_count_in_their_order_and_the_next_coordinator_finds_all": """
        ReplayWithShareSnapshot NonSequentialBatchUpdates""",
    f"{SHARD}::test_after_so_many_updates_comes_a_snapshot_of_all": """
        SubsequentWriteStateSnapshotEpochUpdatesSuccessfully SnapshotUpdateCountBoundary""",
    f"{SHARD}::test_neither_the_start_nor_the_count_goes_back": """
        WriteStateDiscardsStartOffsetRegression
        WriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetGreater
        WriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetEqual
        WriteStateDiscardsDeliveryCompleteCountRegressionIncomingStartOffsetSmaller""",
    f"{SHARD}::test_a_leader_is_fenced_by_a_newer_one_that_reads": """
        WriteStateFencedLeaderEpochError ReadStateFencedLeaderEpochError ReadStateLeaderEpochUpdateSuccess
        ReadStateLeaderEpochUpdateNoUpdate""",
    f"{SHARD}::test_a_state_that_began_anew_refuses_what_was_before": "WriteStateFencedStateEpochError",
    f"{SHARD}::test_what_is_not_there_is_no_state_and_no_error_for_a_summary": """
        WriteFailsOnUninitializedPartition ReadFailsOnUninitializedPartition DeleteStateUninitializedRecord""",
    f"{SHARD}::test_what_cannot_be_is_refused": """
        WriteStateInvalidPartitionRequestData WriteStateInvalidLeaderEpochRequestData
        WriteStateInvalidStateEpochRequestData ReadStateInvalidRequestData ReadStateSummaryInvalidRequestData
        ReadStateNegativeLeaderEpochDisallowed DeleteStateInvalidRequestData InitializeStateInvalidRequestData
        InitializeStateInvalidStateEpochRequestData DeleteTopicIdNonExistentInMetadataImage
        DeletePartitionIdNonExistentInMetadataImage InitializeTopicIdNonExistentInMetadataImage
        InitializePartitionIdNonExistentInMetadataImage""",
    f"{SHARD}::test_the_log_begins_at_the_oldest_snapshot_that_is_needed": "LastRedundantOffset",
    f"{SHARD}::test_what_is_deleted_is_gone_with_its_epochs": "DeleteStateSuccess",
    f"{SHARD}::test_cold_states_are_written_again_so_that_the_log_may_begin_later": """
        SnapshotColdPartitionsNoEligiblePartitions SnapshotColdPartitionsSnapshotUpdateNotConsidered
        SnapshotColdPartitionsDoesNotPerpetuallySnapshot SnapshotColdPartitionsPartialEligiblePartitions""",
    f"{SHARD}::test_what_was_read_of_a_topic_goes_with_it_also_where_nobody_coordinated": """
        OnTopicsDeletedEmptyTopicIds OnTopicsDeletedTopicIds""",
    # SimpleAssignorTest
    f"{ASSIGNOR}::test_nobody_and_nothing": "AssignWithEmptyMembers AssignWithNoSubscribedTopic",
    f"{ASSIGNOR}::test_what_is_read_no_more_or_is_not_there_is_taken_away": """
        AssignWithSubscribedToNonExistentTopic AssignWithOneMemberNoAssignedTopicHeterogeneous""",
    f"{ASSIGNOR}::test_fewer_members_than_partitions_have_all_between_them": """
        AssignWithTwoMembersAndTwoTopicsHomogeneous""",
    f"{ASSIGNOR}::test_members_that_read_different_topics_have_each_what_they_read": """
        AssignWithThreeMembersThreeTopicsHeterogeneous""",
    f"{ASSIGNOR}::test_who_comes_takes_what_is_too_much_for_others": """
        IncrementalAssignmentIncreasingMembersHomogeneous IncrementalAssignmentIncreasingMembersHeterogeneous""",
    f"{ASSIGNOR}::test_what_fits_stays": "AssignWithCurrentAssignmentHeterogeneous",
    f"{ASSIGNOR}::test_all_is_read_by_members_that_read_it_and_evenly": """
        IncrementalAssignmentDecreasingMembersHomogeneous IncrementalAssignmentDecreasingMembersHeterogeneous""",
    "unit/coordinator/group/share/test_heartbeat.py::test_nobody_gets_what_has_not_begun": """
        AssignWithTwoMembersAndTwoTopicsHomogeneousWithAllowedMap
        AssignWithTwoMembersAndTwoTopicsHomogeneousWithNonAssignableTopic
        AssignWithThreeMembersThreeTopicsHeterogeneousWithAllowedMap
        AssignWithThreeMembersThreeTopicsHeterogeneousWithNonAssignableTopic""",
}
"""A test to the cases that it stands for."""

REASONS = {
    "A partition is the event loop's: nobody else looks at it, and who fetches needs no lock.": """
        MaybeInitializeSharePartitionAgainConcurrentRequests MaybeAcquireAndReleaseFetchLock RecordFetchLockRatioMetric
        FetchLockReleasedByDifferentId""",
    "An answer is decoded by its layout, in which nothing of this may be null.": """
        MaybeInitializeWithNullResponse MaybeInitializeWithNullTopicsData WriteShareGroupStateWithNullResponse
        WriteShareGroupStateWithNullTopicsData""",
    "There is one persister, and no other one to be configured.": "WriteShareGroupStateWithNoOpStatePersister",
    "The leader looks an offset up in its own log: there is no other broker whose answer may fail.": """
        MaybeInitializeFetchOffsetForLatestTimestampThrowsError
        MaybeInitializeFetchOffsetForEarliestTimestampThrowsError
        MaybeInitializeFetchOffsetForByDurationThrowsError""",
    "A node has metadata before it has coordinators.": """
        WriteNullMetadataImage ReadNullMetadataImage DeleteNullMetadataImage InitializeNullMetadataImage""",
    "The assignor has no setting, and so no name.": "Name",
}


def names_in(tables: dict[str, str]) -> list[str]:
    return [f"test{name}" for names in tables.values() for name in names.split()]


def listed() -> list[str]:
    return [name for it in LISTS for name in (HERE / "kafkas_cases" / f"{it}.txt").read_text().split()]


def titles() -> dict[str, list[str]]:
    """Of the rows in each table of share partitions."""
    return {
        path.stem: [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
        for path in (HERE / "share_partitions").glob("*.txt")
    }


def test_each_case_is_somewhere_once() -> None:
    rows = [title for title in chain(*titles().values()) if title.startswith("test")]
    found = rows + names_in(ROWS) + names_in(ELSEWHERE) + names_in(REASONS)
    assert sorted(found) == sorted(listed())


@pytest.mark.parametrize("row", ROWS)
def test_the_row_is_there(row: str) -> None:
    table, title = row.split(": ", 1)
    assert title in titles()[table]


@pytest.mark.parametrize("test", ELSEWHERE)
def test_the_test_is_there(test: str) -> None:
    path, name = test.split("::")
    assert f"def {name}(" in (TESTS / path).read_text()
