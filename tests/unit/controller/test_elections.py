"""ElectLeaders: preferred and unclean."""

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, heartbeat, partition

from penstock.controller.controller import Controller
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


def elect(controller: Controller, election_type: int, *indexes: int, topic: str = "flights") -> dict[int, int]:
    """The outcome of an election in one topic; in all of them if no partition is named."""
    named = [TopicPartitions(topic=topic, partitions=list(indexes))] if indexes else None
    reply = carry_out(controller, ElectLeadersRequest(election_type=election_type, topic_partitions=named))
    assert reply.error_code == ErrorCode.NONE
    return {
        item.partition_id: item.error_code for told in reply.replica_election_results for item in told.partition_result
    }


def moved_away() -> Controller:
    """Broker 2 leads what broker 1 should lead; of partition 0 and 1, broker 1 is in sync again."""
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1, 2], [1, 2], [1, 2], [2, 1]))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    carry_out(controller, heartbeat(controller, 1))
    topic_id = controller.image.topics["flights"].topic_id
    controller.apply([PartitionChangeRecord(partition_id=i, topic_id=topic_id, isr=[1, 2]) for i in (0, 1)])
    return controller


def test_the_first_replica_leads_again_where_it_is_in_sync() -> None:
    controller = moved_away()
    codes = elect(controller, PREFERRED, 0, 0, 2, 3, 9)
    assert codes == {
        0: ErrorCode.NONE,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        3: ErrorCode.ELECTION_NOT_NEEDED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [partition(controller, "flights", index)[0] for index in range(4)] == [1, 2, 2, 2]
    assert controller.image.topics["flights"].partitions[0].leader_epoch == 2
    assert elect(controller, PREFERRED, 0, topic="nothing") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_all_partitions_are_meant_if_none_is_named_and_those_in_order_are_not_told() -> None:
    controller = moved_away()
    assert elect(controller, PREFERRED) == {
        0: ErrorCode.NONE,
        1: ErrorCode.NONE,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert elect(controller, UNCLEAN) == {}


def test_an_operator_may_elect_uncleanly_whatever_the_topic_says() -> None:
    controller = moved_away()
    carry_out(controller, heartbeat(controller, 2, want_fence=True))
    assert partition(controller, "flights", 2) == (-1, (2,))
    assert elect(controller, UNCLEAN) == {2: ErrorCode.NONE, 3: ErrorCode.NONE}
    assert partition(controller, "flights", 2) == (1, (1,))
    assert elect(controller, UNCLEAN, 2) == {2: ErrorCode.ELECTION_NOT_NEEDED}


def test_nobody_is_elected_where_nobody_is_there() -> None:
    controller = active_controller(1, 2)
    carry_out(controller, assigned("flights", [1]))
    carry_out(controller, heartbeat(controller, 1, want_fence=True))
    assert elect(controller, UNCLEAN, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert elect(controller, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("election_type", [2, -1])
def test_an_unknown_kind_of_election(election_type: int) -> None:
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
    assert active_controller().decide(request, 0).reply.error_code == ErrorCode.INVALID_REQUEST
    named = request.replace(topic_partitions=[TopicPartitions(topic="flights", partitions=[0, 1])])
    (told,) = active_controller().decide(named, 0).reply.replica_election_results
    codes = [(one.partition_id, one.error_code) for one in told.partition_result]
    assert (told.topic, codes) == ("flights", [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.INVALID_REQUEST)])
