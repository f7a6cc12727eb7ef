"""Which clients are nodes, that have no quotas: nobody becomes one by calling itself so where others have names."""

from __future__ import annotations

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.quotas import Nodes
from penstock.node.serving.access import ALLOW_ALL, Authorizer, Right
from penstock.node.serving.session import ANONYMOUS, Principal, Session
from penstock.protocol.acls import Operation

SASL = {
    "process.roles": "broker",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listeners": "CLIENTS://127.0.0.1:9092,NODES://127.0.0.1:9094",
    "inter.broker.listener.name": "NODES",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.nodes.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="node" password="hush" user_node="hush";',
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
CLEAR = "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT"
NODE, CLIENT = "penstock-3", "penstock"


class ActionFor(Authorizer):
    def __init__(self, user: str) -> None:
        self.user = user

    def has(self, session: Session, right: Right, name: str) -> bool:
        return session.principal.name == self.user and right.operation is Operation.CLUSTER_ACTION


def is_node(
    client_id: str, user: str = ANONYMOUS.name, *, authorizer: Authorizer = ALLOW_ALL, on: str = "NODES", **keys: str
) -> bool:
    settings = {name.replace("_", "."): value for name, value in keys.items()}
    nodes = Nodes(BrokerConfig.embedded(SASL | settings), authorizer)
    return nodes.has(Session("h", 1, on, 1, Principal("User", user)), client_id)


def test_without_names_ids_are_all_there_is() -> None:
    assert is_node(NODE, listener_security_protocol_map=CLEAR)
    assert not is_node(CLIENT, listener_security_protocol_map=CLEAR)
    assert not is_node("my-penstock-3", listener_security_protocol_map=CLEAR)


def test_nobody_is_one_without_a_name_where_nodes_have_names() -> None:
    assert not is_node(NODE)
    assert not is_node(NODE, authorizer=ActionFor("node"), listener_security_protocol_map=CLEAR)


def test_nobody_is_one_on_a_listener_to_which_nodes_do_not_come() -> None:
    assert not is_node(NODE, on="CLIENTS", listener_security_protocol_map=CLEAR)
    assert not is_node(NODE, "node", on="CLIENTS")


@pytest.mark.parametrize("client_id", [NODE, CLIENT])
def test_who_has_another_name_is_none_whatever_it_calls_itself(client_id: str) -> None:
    assert not is_node(client_id, "ada")
    assert not is_node(client_id, "ada", authorizer=ActionFor("node"))


def test_the_user_of_nodes_and_who_may_do_what_nodes_may_are() -> None:
    assert is_node(NODE, "node")
    assert not is_node(CLIENT, "node")
    assert is_node(NODE, "ada", authorizer=ActionFor("ada"))


def test_a_listener_that_only_nodes_reach() -> None:
    assert is_node(CLIENT, "ada", on="NODES", penstock_authorizer_node_listeners="NODES")
    assert not is_node(CLIENT, "ada", on="CLIENTS", penstock_authorizer_node_listeners="NODES")
