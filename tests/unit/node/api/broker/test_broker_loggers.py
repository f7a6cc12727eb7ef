import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.node.api.in_slices import answer_of
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.api.configs.incremental_alter_configs import incremental_alter_configs
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.schema import Message

NAME = "penstock.tests.loggers"
SET, DELETE, APPEND = 0, 1, 2


@dataclass
class Controller:
    """Accepts everything and remembers what it was asked."""

    asked: list[IncrementalAlterConfigsRequest] = field(default_factory=list)

    def submit(self, request: Any, answer: type[Message], **rest: Any) -> asyncio.Future[Any]:
        self.asked.append(request)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.set_result(
            IncrementalAlterConfigsResponse(
                responses=[AlterConfigsResourceResponse(resource_name=it.resource_name) for it in request.resources]
            )
        )
        return reply


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def broker() -> Broker:
    node = node_context(BrokerConfig.embedded(), ClusterImage("some-cluster"))
    return broker_on(broker_context(node, Controller()))


def asked_of(broker: Broker) -> list[IncrementalAlterConfigsRequest]:
    assert isinstance(broker.controller, Controller)
    return broker.controller.asked


def loggers_of(node: str, *changes: tuple[int, str, str | None]) -> AlterConfigsResource:
    configs = [
        AlterableConfig(name=name, config_operation=operation, value=value) for operation, name, value in changes
    ]
    return AlterConfigsResource(resource_type=ResourceType.BROKER_LOGGER, resource_name=node, configs=configs)


async def answers(
    broker: Broker, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    context = RequestContext(44, 1, 1, "tests", Session("127.0.0.1", 1234, "PLAINTEXT", 1))
    response = await answer_of(incremental_alter_configs(broker, context, request))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.responses


async def test_a_level_is_set_and_taken_back(broker: Broker, logger: logging.Logger) -> None:
    (answer,) = await answers(broker, loggers_of("1", (SET, NAME, "WARN")))
    assert (answer.error_code, logger.level) == (ErrorCode.NONE, logging.WARNING)
    (answer,) = await answers(broker, loggers_of("1", (DELETE, NAME, None)))
    assert (answer.error_code, logger.level) == (ErrorCode.NONE, logging.NOTSET)
    assert asked_of(broker) == []


async def test_validation_alone_changes_nothing(broker: Broker, logger: logging.Logger) -> None:
    (answer,) = await answers(broker, loggers_of("1", (SET, NAME, "WARN")), validate_only=True)
    assert (answer.error_code, logger.level) == (ErrorCode.NONE, logging.NOTSET)


@pytest.mark.parametrize(
    ("node", "change", "code", "says"),
    [
        ("1", (SET, NAME, "LOUD"), ErrorCode.INVALID_CONFIG, "'LOUD' is not allowed; expected one of TRACE, DEBUG"),
        ("1", (SET, "penstock.nobody", "WARN"), ErrorCode.INVALID_CONFIG, "penstock.nobody: there is no such logger"),
        ("1", (APPEND, NAME, "WARN"), ErrorCode.INVALID_REQUEST, "a level is set or, but for root, deleted"),
        ("1", (DELETE, "root", None), ErrorCode.INVALID_REQUEST, "a level is set or, but for root, deleted"),
        ("2", (SET, NAME, "WARN"), ErrorCode.INVALID_REQUEST, "its own loggers, those of 1, only"),
    ],
)
async def test_a_refusal_changes_nothing_of_its_resource(
    broker: Broker, logger: logging.Logger, node: str, change: tuple[int, str, str | None], code: ErrorCode, says: str
) -> None:
    (answer,) = await answers(broker, loggers_of(node, (SET, NAME, "ERROR"), change))
    assert answer.error_code == code
    assert says in (answer.error_message or "")
    assert logger.level == logging.NOTSET


async def test_the_controller_decides_about_the_rest(broker: Broker, logger: logging.Logger) -> None:
    topic = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="orders")
    responses = await answers(broker, loggers_of("1", (SET, NAME, "FATAL")), topic)
    assert [response.resource_name for response in responses] == ["orders", "1"]
    assert [resource.resource_name for resource in asked_of(broker)[0].resources] == ["orders"]
    assert logger.level == logging.CRITICAL


async def test_a_level_that_is_named_often_is_set_once(
    broker: Broker, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    monkeypatch.setattr(logger, "setLevel", levels.append)
    await answers(broker, loggers_of("1", *[(SET, NAME, level) for level in ("DEBUG", "INFO", "WARN")]))
    assert levels == [logging.WARNING]
    monkeypatch.undo()


async def test_loggers_are_named_once(broker: Broker, logger: logging.Logger) -> None:
    twice = [loggers_of(str(broker.node_id), (SET, NAME, level)) for level in ("DEBUG", "INFO")]
    assert [answer.error_code for answer in await answers(broker, *twice)] == [ErrorCode.INVALID_REQUEST] * 2
    assert logger.level == logging.NOTSET
