"""Whatever clients ask at the same time, the outcome is that of one command after the other, in the order of asking."""

import asyncio
import random
from pathlib import Path

import pytest
from tests.unit.node.controller_node import OneNode, create, started
from tests.unit.node.gated_log import GatedLog

from penstock.controller.controller import Controller
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.schema import Message

COMMANDS = 300


def any_command(chance: random.Random) -> Message:
    name = chance.choice(["flights", "delays", "prices"])
    kind = chance.randrange(3)
    if kind == 0:
        return create(name, chance.randint(0, 3))
    if kind == 1:
        return DeleteTopicsRequest(topic_names=[name])
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=chance.randint(1, 5))])


def alone(node: OneNode, seed: int) -> Controller:
    """A controller that starts from the same image, with the same chance."""
    driver = node.controller
    driver._chance.seed(seed)  # type: ignore[attr-defined]  # a random.Random in tests
    return Controller(node.image.copy(), driver._settings, random.Random(seed), next_offset=node.image.offset + 1)


@pytest.mark.parametrize("seed", range(5))
async def test_the_outcome_is_that_of_one_after_the_other(tmp_path: Path, seed: int) -> None:
    driver = await started(GatedLog(tmp_path))
    chance = random.Random(seed)
    sequential = alone(driver, seed)
    replies, expected = [], []
    for _ in range(COMMANDS):
        command = any_command(chance)
        replies.append(driver.submit(command))
        decision = sequential.decide(command, 1_000)
        sequential.apply(decision.records)
        expected.append(decision.reply)
        if chance.random() < 0.1:
            await asyncio.wait([chance.choice(replies)])
    assert await asyncio.gather(*replies) == expected
    assert driver.image == sequential.image
    assert driver.image.offset + 1 == sequential.state.next_offset
