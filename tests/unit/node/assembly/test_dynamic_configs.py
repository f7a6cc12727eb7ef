import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import ResourceType
from penstock.node.assembly.dynamic_configs import AddedListeners, DynamicConfigs


class Node:
    """A configuration that follows an image, and how often it was told to have changed."""

    def __init__(self) -> None:
        self.image = ClusterImage("some-cluster")
        self.config = BrokerConfig.embedded()
        self.dynamic = DynamicConfigs(self.config, self.image, node_id=1)
        self.changes = 0
        self.dynamic.on_change(self.count)

    def count(self) -> None:
        self.changes += 1

    def commit(self, name: str, key: str, value: str | None, kind: ResourceType = ResourceType.BROKER) -> None:
        record = ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        self.image.apply(record)
        self.dynamic.on_metadata([record])


def test_a_value_for_this_broker_goes_before_that_for_all() -> None:
    node = Node()
    node.commit("1", "message.max.bytes", "5")
    node.commit("", "message.max.bytes", "6")
    assert node.config.value("message.max.bytes") == 5
    node.commit("1", "message.max.bytes", None)
    assert node.config.value("message.max.bytes") == 6
    assert node.changes == 3


def test_what_concerns_others_changes_nothing() -> None:
    node = Node()
    node.commit("2", "message.max.bytes", "5")
    node.commit("1", "consumer.session.timeout.ms", "5", ResourceType.GROUP)
    assert node.config.value("message.max.bytes") == 1048588
    assert node.changes == 0


def test_what_was_set_before_the_start_is_taken_over() -> None:
    node = Node()
    node.image.apply(ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="5"))
    node.dynamic.reload()
    assert node.config.value("message.max.bytes") == 5


def test_a_value_that_is_not_understood_is_logged_and_left(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.commit("", "message.max.bytes", "many")
    assert node.config.value("message.max.bytes") == 1048588
    assert node.changes == 0
    assert "message.max.bytes: 'many' is not allowed" in caplog.text


@pytest.mark.parametrize("error", [OSError(98, "it is taken"), OSError("it is taken")])
async def test_why_a_listener_cannot_be_had_is_logged(caplog: pytest.LogCaptureFixture, error: OSError) -> None:
    def bind(*_: object, **__: object) -> None:
        raise error

    node = Node()
    node.commit("1", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT")
    node.commit("1", "listeners", f"{node.config.text('listeners')},EXTRA://127.0.0.1:9")
    added = AddedListeners(node.config, cast("Any", SimpleNamespace(bind=bind)), cast("Any", None))
    added.follow()
    while not caplog.text:
        await asyncio.sleep(0)
    await added.stop()
    assert "cannot listen on EXTRA://127.0.0.1:9 (it is taken)" in caplog.text
