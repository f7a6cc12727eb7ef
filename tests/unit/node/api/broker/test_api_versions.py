"""Who is told of which APIs."""

from pathlib import Path

import pytest
from tests.unit.node.metadata_node import CLUSTER, NODE, context, start_broker

from penstock.node.api.broker.api_versions import api_versions
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.errors import ErrorCode
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


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (CLUSTER, NODE, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),
        (CLUSTER, NODE + 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", NODE, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER, -1, ErrorCode.INVALID_REQUEST),
        (None, NODE, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_who_looks_for_another_node_is_told_so(
    tmp_path: Path, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    broker, _ = await start_broker(str(tmp_path))
    request = ApiVersionsRequest(
        client_software_name="java", client_software_version="4.4.0", cluster_id=cluster_id, node_id=node_id
    )
    answer = api_versions(broker, context(5), request)
    assert answer.error_code == code
    assert bool(answer.finalized_features) is (code == ErrorCode.NONE)
