"""The control records of the metadata log, as they lie in it."""

import pytest
from tests.unit.raft.replicas import quorum, voter

from penstock.protocol.codec import decode
from penstock.protocol.control.records import ControlType, control_batch, control_record, control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.records import Record
from penstock.raft.control import leader_change_record, quorums_in


def test_a_leader_begins_its_epoch_with_who_may_vote_and_who_voted_for_it() -> None:
    record = leader_change_record(1, quorum(1, 2, 3), [voter(1).key, voter(3).key], 99)
    assert record.key == bytes.fromhex("0000 0002")
    assert control_type(record) == ControlType.LEADER_CHANGE
    assert record.value is not None
    message, _ = decode(LeaderChangeMessage, 0, record.value)
    assert message.leader_id == 1
    assert [item.voter_id for item in message.voters] == [1, 2, 3]
    assert [item.voter_id for item in message.granting_voters] == [1, 3]


@pytest.mark.parametrize("kind", [ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS])
def test_a_record_that_changes_the_quorum_and_has_no_value_is_damaged(kind: ControlType) -> None:
    key = control_record(kind, b"", 0).key
    for value in (None, b""):
        batch = control_batch([Record(timestamp_ms=0, key=key, value=value)], base_offset=0, epoch=1)
        with pytest.raises(DecodeError):
            list(quorums_in(batch, quorum(1, 2, 3)))
