"""What `penstock cluster api-versions --json` says of keys that are known here, and of others."""

from typing import Any

from penstock.cli.cluster.api_versions import NodeVersions, _as_json
from penstock.client.errors import ConnectionFailedError
from penstock.client.metadata import BrokerMetadata
from penstock.protocol.address import Address


def test_a_key_that_is_unknown_here_is_told_by_its_number() -> None:
    node = NodeVersions(BrokerMetadata(1, Address("h", 2), None), {3: (0, 99), 9_999: (0, 1)})
    apis: Any = _as_json(node)["apis"]
    metadata, unknown = apis
    assert (metadata["name"], metadata["max_version"]) == ("Metadata", 99)
    assert metadata["usable"] < 99
    assert (unknown["api_key"], unknown["name"], unknown["usable"]) == (9_999, None, None)


def test_a_node_that_does_not_answer_says_why() -> None:
    node = BrokerMetadata(1, Address("h", 2), None)
    assert _as_json(NodeVersions(node, {}))["error"] is None
    assert _as_json(NodeVersions(node, {}, ConnectionFailedError("gone")))["error"] == "gone"
