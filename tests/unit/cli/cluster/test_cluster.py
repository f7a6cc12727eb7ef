"""What `penstock cluster describe` makes of what a broker and the quorum say."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.cluster import cluster
from penstock.cli.terminal import session
from penstock.client.admin import BrokerDescription, ClusterDescription
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError

BROKERS = [BrokerDescription(node, Address("h", node), None, False) for node in (1, 2)]


@pytest.mark.parametrize(("leader_id", "says"), [(100, "controller 100"), (None, "controller unknown")])
def test_the_active_controller_is_named_though_it_is_no_broker(
    monkeypatch: pytest.MonkeyPatch, leader_id: int | None, says: str
) -> None:
    async def describe_cluster(**_: bool) -> ClusterDescription:
        return ClusterDescription("id", 2, BROKERS)

    async def describe() -> Any:
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is active yet")
        return SimpleNamespace(leader_id=leader_id)

    admin = SimpleNamespace(describe_cluster=describe_cluster, quorum=SimpleNamespace(describe=describe))

    def run(addresses: object, config: object, work: Any, **_: object) -> Any:
        try:
            work(admin).send(None)
        except StopIteration as end:
            return end.value

    monkeypatch.setattr(session, "run_with_admin", run)
    shown = CliRunner().invoke(cluster.command, ["describe"]).stdout
    assert shown.splitlines()[:2] == ["cluster id", says]
    assert "yes" not in shown, "broker 2 is not the controller"
    said = json.loads(CliRunner().invoke(cluster.command, ["describe", "--json"]).stdout)
    assert said["controller_id"] == leader_id
