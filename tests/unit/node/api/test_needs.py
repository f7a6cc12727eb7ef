"""Every API says what it does to which kind of thing, so that whoever may not do it can be refused in one place."""

import pytest

from penstock.node.serving.access import Need, Operation, Resource
from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, load_handlers
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import OwnApiKey

BEFORE_AUTHENTICATION = {ApiKey.API_VERSIONS}
SERVED_BY_BOTH = {ApiKey.FETCH}
"""Brokers serve it to clients as well, controllers to replicas of the metadata log alone."""

ASKED_BY_BROKERS = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    OwnApiKey.FORWARD_TO_COORDINATOR,
}
"""What voters of a storage group ask each other, and what a coordinator that has moved hands on."""


@pytest.mark.parametrize("package", [BROKER_HANDLERS, CONTROLLER_HANDLERS])
def test_every_api_declares_its_needs(package: str) -> None:
    without = {key for key, handler in load_handlers(package).items() if not handler.needs}
    assert without == BEFORE_AUTHENTICATION


def test_what_is_handed_on_needs_the_same_at_the_controller() -> None:
    brokers, controllers = load_handlers(BROKER_HANDLERS), load_handlers(CONTROLLER_HANDLERS)
    both = brokers.keys() & controllers.keys()
    assert len(both) > 10
    for key in both - SERVED_BY_BOTH:
        broker, controller = brokers[key], controllers[key]
        assert broker.needs == controller.needs
        assert (broker.lowest, broker.newest) == (controller.lowest, controller.newest)


def test_only_nodes_act_on_the_cluster() -> None:
    """Kafka's word for what brokers and controllers ask each other; whoever has it can do everything."""
    nodes = {key for key, one in load_handlers(BROKER_HANDLERS).items() if one.needs == (Need.CLUSTER_ACTION,)}
    assert nodes == ASKED_BY_BROKERS
    assert Need.CLUSTER_ACTION.operation is Operation.CLUSTER_ACTION
    assert Need.CLUSTER_ACTION.resource is Resource.CLUSTER
