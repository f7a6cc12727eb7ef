import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on
from tests.unit.node.metadata_node import context, create, start_broker

from penstock.node.api.broker.init_producer_id import init_producer_id
from penstock.node.roles.broker import Broker
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def ask(broker: Broker, request: InitProducerIdRequest, version: int = 5) -> InitProducerIdResponse:
    asked, _ = decode(InitProducerIdRequest, version, encode(request, version))
    answer = init_producer_id(broker, context(version), asked)
    response = await answer if isinstance(answer, Awaitable) else answer
    return decode(InitProducerIdResponse, version, encode(response, version))[0]


def idempotent() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None)


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    return (await start_broker(str(tmp_path)))[0]


@pytest.mark.parametrize("version", range(6))
async def test_each_producer_gets_an_id_of_its_own(broker: Broker, version: int) -> None:
    first, second = await ask(broker, idempotent(), version), await ask(broker, idempotent(), version)
    assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 0, 0)
    assert second.producer_id == 1


async def test_ids_stay_distinct_over_many_blocks_and_askers(broker: Broker) -> None:
    answers = await asyncio.gather(*(ask(broker, idempotent()) for _ in range(3000)))
    assert sorted(answer.producer_id for answer in answers) == list(range(3000))


async def test_the_next_block_is_asked_for_before_the_last_is_used_up(broker: Broker) -> None:
    for _ in range(950):
        await ask(broker, idempotent())
    await create(broker, "behind-the-block-in-the-queue")
    assert broker.image.next_producer_id == 2000
    for _ in range(1000):
        assert isinstance(init_producer_id(broker, context(5), idempotent()), InitProducerIdResponse)


async def test_a_restart_never_gives_an_id_twice(broker: Broker) -> None:
    before = await ask(broker, idempotent())
    node = node_context(broker.config, broker.image)
    after = await ask(broker_on(broker_context(node, broker.controller, broker.broker_epoch)), idempotent())
    assert after.producer_id == before.producer_id + 1000


async def test_no_ids_from_a_controller_that_gives_none(broker: Broker) -> None:
    broker.lease.is_registered(99)
    answers = await asyncio.gather(ask(broker, idempotent()), ask(broker, idempotent()))
    assert [a.error_code for a in answers] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    assert answers[0].producer_id == -1


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("pay", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("pay", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("pay", 900_000, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_what_cannot_be_a_transaction_is_refused(
    broker: Broker, transactional_id: str, timeout_ms: int, code: ErrorCode
) -> None:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    assert (await ask(broker, request)).error_code == code
