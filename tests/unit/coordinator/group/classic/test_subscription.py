import pytest

from penstock.coordinator.group.classic.subscription import subscribed_topics
from penstock.protocol.codec import encode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


@pytest.mark.parametrize("version", range(4))
def test_the_topics_of_every_version(version: int) -> None:
    metadata = version.to_bytes(2, "big") + encode(ConsumerProtocolSubscription(topics=["a", "b"]), version)
    assert subscribed_topics(metadata) == ["a", "b"]


def test_a_later_version_reads_as_the_newest_that_is_known() -> None:
    metadata = b"\x00\x07" + encode(ConsumerProtocolSubscription(topics=["a"]), 3) + b"more"
    assert subscribed_topics(metadata) == ["a"]


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff\x00\x00", b"\x00\x00\x00\x00\x7f\xff", b"\x00\x01url"])
def test_what_is_no_subscription_says_nothing(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
