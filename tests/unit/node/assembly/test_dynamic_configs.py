import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import ConfigRecord, TopicRecord
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
    added = AddedListeners(node.config, cast("Any", SimpleNamespace(bind=bind)), cast("Any", None), print)
    added.follow()
    while not caplog.text:
        await asyncio.sleep(0)
    await added.stop()
    assert "cannot listen on EXTRA://127.0.0.1:9 (it is taken)" in caplog.text


class Listening:
    """A server that may refuse what is bound, and an environment that binds."""

    def __init__(self, config: BrokerConfig, error: ValueError | None = None) -> None:
        self.did: list[str] = []
        self.error = error
        server = SimpleNamespace(listen=self.listen, close=lambda name: self.did.append(f"closes {name}"))
        self.added = AddedListeners(
            config, cast("Any", SimpleNamespace(bind=self.bind)), cast("Any", server), self.forget
        )

    def forget(self, name: str) -> None:
        self.did.append(f"forgets {name}")

    def bind(self, endpoint: Any, **_: object) -> Any:
        self.did.append(f"binds {endpoint.listener} {endpoint.host} {endpoint.port}")
        return SimpleNamespace(close=lambda: self.did.append("lets go"))

    async def listen(self, bound: list[Any]) -> None:
        self.did.append(f"listens on {len(bound)}")
        if self.error is not None:
            raise self.error

    async def follow(self) -> list[str]:
        """What it did."""
        self.did.clear()
        self.added.follow()
        while self.added._tasks:
            await asyncio.sleep(0)
        return list(self.did)


OPENS = ["binds EXTRA 127.0.0.1 9", "listens on 1"]
IN_VAIN = [*OPENS, "lets go", "forgets EXTRA"]


@pytest.mark.parametrize(
    ("error", "first", "again", "gone"),
    [(None, OPENS, [], ["closes EXTRA", "forgets EXTRA"]), (ValueError("twice"), IN_VAIN, IN_VAIN, [])],
)
async def test_a_listener_that_is_added_is_open_until_it_is_taken_away(
    caplog: pytest.LogCaptureFixture, error: ValueError | None, first: list[str], again: list[str], gone: list[str]
) -> None:
    node = Node()
    listening, own = Listening(node.config, error), node.config.text("listeners")
    assert await listening.follow() == []
    assert not listening.added._open
    node.commit("1", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT")
    node.commit("1", "listeners", f"{own},EXTRA://127.0.0.1:9")
    assert await listening.follow() == first
    assert caplog.text.count("cannot listen on EXTRA://127.0.0.1:9: twice") == (error is not None)
    assert await listening.follow() == again, "one that could not be opened is tried with each change"
    node.commit("1", "listeners", None)
    assert await listening.follow() == gone
    assert await listening.follow() == []


@pytest.mark.parametrize(
    ("kind", "name", "concerns"),
    [
        (ResourceType.BROKER, "1", True),
        (ResourceType.BROKER, "", True),
        (ResourceType.BROKER, "2", False),
        (ResourceType.TOPIC, "1", False),
        (ResourceType.TOPIC, "", False),
    ],
)
def test_one_record_that_concerns_it_among_others_is_enough(kind: ResourceType, name: str, concerns: bool) -> None:
    node = Node()
    one = ConfigRecord(resource_type=kind, resource_name=name, name="message.max.bytes", value="5")
    other = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="retention.ms", value="5")
    for records in ([one], [other, one], [one, other]):
        node.changes = 0
        node.dynamic.on_metadata(records)
        assert node.changes == concerns
    node.dynamic.on_metadata([TopicRecord(name="t"), other])
    assert node.changes == concerns, "as before"
