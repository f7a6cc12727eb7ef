"""What members of a group say to each other, and that other clients read it the same way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from penstock.client.consumer_protocol import (
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError

PARTITIONS = st.lists(st.builds(TopicPartition, st.text("abcé", min_size=1), st.integers(0, 99)), unique=True)


@given(PARTITIONS)
def test_an_assignment_comes_back(partitions: list[TopicPartition]) -> None:
    assert decode_assignment(encode_assignment(partitions)) == sorted(partitions)


@given(st.sets(st.text("abc", min_size=1)), PARTITIONS, st.integers(-1, 99))
def test_a_subscription_comes_back(topics: set[str], owned: list[TopicPartition], generation: int) -> None:
    member = decode_subscription("m", "i", encode_subscription(topics, owned, generation))
    assert (set(member.topics), member.instance_id) == (topics, "i")
    assert (list(member.owned), member.generation) == (sorted(owned), generation)


@given(PARTITIONS, st.integers(-1, 99))
def test_what_a_sticky_member_owned_is_found_in_its_user_data(owned: list[TopicPartition], generation: int) -> None:
    data = encode_sticky_user_data(owned, generation)
    assert decode_sticky_user_data(data) == (tuple(sorted(owned)), generation)
    member = decode_subscription("m", None, encode_subscription(["t"], user_data=data))
    assert member.owned == tuple(sorted(owned))


def test_user_data_of_another_kind_says_nothing() -> None:
    assert decode_sticky_user_data(b"\0\0\0\5rack") == ((), -1)


def test_another_client_reads_what_we_write() -> None:
    subscription = ConsumerProtocolSubscription.decode(encode_subscription(["b", "a"]))
    assert list(subscription.topics) == ["a", "b"]
    assignment = ConsumerProtocolAssignment.decode(encode_assignment([TopicPartition("t", 1), TopicPartition("t", 0)]))
    rows = [(row.topic, list(row.partitions)) for row in assignment.assigned_partitions]
    assert rows == [("t", [0, 1])]


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\0\x7f\xff\xff\xff"])
def test_what_is_no_assignment_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_assignment(data)


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == []
