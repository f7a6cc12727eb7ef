"""Whether a topic is there is known where the cluster says so, or says that it is not."""

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import FakeCluster

from penstock.client.admin import Admin
from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.requests.api import ApiKey

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)


class Refusing(FakeCluster):
    """Has an error for its topic once the client has begun."""

    code = ErrorCode.NONE

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        answer.topics[0].error_code = self.code
        return answer


@pytest.mark.parametrize(
    ("code", "is_there"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, None),
    ],
)
async def test_another_error_says_nothing_of_whether_a_topic_is_there(code: ErrorCode, is_there: bool | None) -> None:
    fake = Refusing()
    async with fake_broker(fake) as fake.broker, Admin([fake.broker.address], SETTINGS) as admin:
        fake.code = code
        if is_there is not None:
            assert await admin.topics.is_there("t") is is_there
        else:
            with pytest.raises(KafkaError) as refusal:
                await admin.topics.is_there("t")
            assert refusal.value.code is code


async def test_brokers_that_know_of_no_eligible_leaders_tell_of_none() -> None:
    fake = FakeCluster()
    async with (
        fake_broker(fake, {ApiKey.DESCRIBE_TOPIC_PARTITIONS: (-1, -1)}) as fake.broker,
        Admin([fake.broker.address], SETTINGS) as admin,
    ):
        assert await admin.topics.eligible_leaders(["t"]) == {}
