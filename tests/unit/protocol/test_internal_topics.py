"""What clients may not do with the cluster's own topics: one row for each, complete."""

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    STORAGE_GROUPS,
    TRANSACTION_STATE,
    Act,
    check_allowed,
    has_replicas,
    is_internal,
    refusal_of,
)

INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OF_COORDINATORS = {Act.PRODUCE: INVALID, Act.DELETE_RECORDS: INVALID, Act.ADD_PARTITIONS: INVALID}
REFUSED = {
    CONSUMER_OFFSETS: OF_COORDINATORS,
    TRANSACTION_STATE: OF_COORDINATORS,
    SHARE_GROUP_STATE: OF_COORDINATORS,
    STORAGE_GROUPS: {
        Act.CREATE: INVALID,
        Act.AUTO_CREATE: INVALID,
        Act.ADD_PARTITIONS: INVALID,
        Act.DELETE: INVALID,
        Act.USE: FORBIDDEN,
        Act.PRODUCE: FORBIDDEN,
        Act.DELETE_RECORDS: INVALID,
    },
    CLUSTER_METADATA: {
        Act.CREATE: ErrorCode.INVALID_REQUEST,
        Act.AUTO_CREATE: UNKNOWN,
        Act.ADD_PARTITIONS: UNKNOWN,
        Act.CONFIGURE: UNKNOWN,
        Act.MOVE: UNKNOWN,
        Act.USE: UNKNOWN,
        Act.PRODUCE: UNKNOWN,
        Act.DELETE_RECORDS: UNKNOWN,
    },
    "clicks": {},
}


def test_every_topic_has_its_row() -> None:
    assert REFUSED.keys() - {"clicks"} == INTERNAL_TOPICS.keys()


@pytest.mark.parametrize("act", Act)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, act: Act) -> None:
    refusal = refusal_of(name, act)
    assert (refusal and refusal.code) == REFUSED[name].get(act)
    if refusal is None:
        check_allowed(name, act)
        return
    with pytest.raises(KafkaError) as raised:
        check_allowed(name, act)
    assert raised.value.code == refusal.code


def test_what_they_are() -> None:
    assert [name for name in REFUSED if is_internal(name)] == [*REFUSED][:4]
    assert [name for name in REFUSED if not has_replicas(name)] == [STORAGE_GROUPS, CLUSTER_METADATA]
