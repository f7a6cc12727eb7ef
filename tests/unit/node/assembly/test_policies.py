"""A node judges by its policies whoever asks; one whose policies cannot be loaded does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client.cluster import ClusterClient
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import StartError, start_node
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse


def config(directory: Path, rules: str) -> BrokerConfig:
    path = directory / "rules.toml"
    path.write_text(rules)
    return BrokerConfig.embedded(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory / "data"),
            "penstock.policy.file": str(path),
        }
    )


async def test_a_topic_is_refused_to_a_client_and_to_a_broker_that_creates_it_by_itself(tmp_path: Path) -> None:
    node = await start_node(config(tmp_path, '[[rule]]\nnames = ["shop.*"]\n'))
    try:
        address = f"{node.endpoints[0].host}:{node.endpoints[0].port}"
        async with ClusterClient(address) as client:
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("shop.a", "other")]
            reply = await client.to_any(CreateTopicsRequest(topics=topics), CreateTopicsResponse)
            assert {topic.name: topic.error_code for topic in reply.topics} == {
                "shop.a": 0,
                "other": ErrorCode.POLICY_VIOLATION,
            }
            with pytest.raises(KafkaError):
                await client.topic("another", create=True, timeout_ms=100)
            assert sorted((await client.refresh(None)).topics) == ["shop.a"]
    finally:
        await node.stop()


async def test_a_mistake_in_a_rule_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"penstock\.policy\.file=.*rule 1 has no key name; did you mean names\?"):
        await start_node(config(tmp_path, '[[rule]]\nname = ["shop.*"]\n'))
    assert not (tmp_path / "data").exists()
