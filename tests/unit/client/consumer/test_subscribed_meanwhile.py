"""A subscription that is changed while its consumer is on its way into the group is what the group hears of."""

import asyncio
import threading

import pytest
from tests.unit.client.consumer.test_heartbeats import PATIENCE_S, Coordinator, member

from penstock.client.consumer_protocol import decode_subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


class Slow(Coordinator):
    """Answers the first join when it is told, with that error; knows another topic."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__()
        self.code = code
        self.is_asked, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, header, request):  # type: ignore[no-untyped-def]
        answer = super().__call__(header, request)  # type: ignore[no-untyped-call]
        if isinstance(request, JoinGroupRequest) and len(self.joins) == 1:
            self.is_asked.set()
            self.goes_on.wait(PATIENCE_S)
            if self.code is not ErrorCode.NONE:
                return JoinGroupResponse(error_code=self.code, member_id="m")
        return answer

    def metadata(self) -> MetadataResponse:
        found = super().metadata()
        found.topics.append(MetadataResponseTopic(name="u", partitions=found.topics[0].partitions))
        return found

    def heard(self) -> list[str]:
        protocol = self.joins[-1].protocols[0]
        return sorted(decode_subscription("m", None, protocol.metadata).topics)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_the_group_hears_of_it(strategy: str, code: ErrorCode) -> None:
    coordinator = Slow(code)
    async with member(coordinator, partition_assignment_strategy=(strategy,)) as consumer:
        await consumer.cluster.refresh(["t", "u"])
        await consumer.subscribe(["t"])
        async with asyncio.timeout(PATIENCE_S):
            while not coordinator.is_asked.is_set():
                await consumer.poll(timeout_ms=10)
            await consumer.subscribe(["t", "u"])
            coordinator.goes_on.set()
            while coordinator.heard() != ["t", "u"]:
                await consumer.poll(timeout_ms=10)
