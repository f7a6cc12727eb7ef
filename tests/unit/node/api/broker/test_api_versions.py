"""Who is told of which APIs."""

from pathlib import Path

import pytest
from tests.unit.node.metadata_node import context, start_broker

from penstock.node.api.broker.api_versions import api_versions
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.requests.api import OwnApiKey


@pytest.mark.parametrize(
    ("software", "version", "told"), [("penstock", 4, True), ("apache-kafka-java", 4, False), ("", 2, False)]
)
async def test_apis_of_our_own_are_told_to_clients_of_our_own(
    tmp_path: Path, software: str, version: int, told: bool
) -> None:
    broker, _ = await start_broker(str(tmp_path))
    key = OwnApiKey.RESIGN_CONTROLLER
    broker.handlers = {key: Handler(key, 0, 0, lambda: None, NOTHING)}
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
    answer = api_versions(broker, context(version), request)
    assert (key in [row.api_key for row in answer.api_keys]) is told
