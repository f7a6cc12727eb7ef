"""Who is told that an access rule is gone knows that no broker in service goes by it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, successor
from tests.unit.controller.test_acls import ANY, RULE
from tests.unit.controller.test_scram_users import ADA, GONE
from tests.unit.node.controller_node import NODE, OneNode, create, identity, node_over
from tests.unit.node.controlling.refusals import refused
from tests.unit.node.gated_log import GatedLog

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.controller.heartbeats import Heartbeats
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.node.controlling.seen_by_brokers import SeenByBrokers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.create_acls import CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsRequest

CREATE, DELETE = CreateAclsRequest(creations=[RULE]), DeleteAclsRequest(filters=[ANY])
MAKE_USER = AlterUserScramCredentialsRequest(upsertions=[ADA])
REMOVE_USER = AlterUserScramCredentialsRequest(deletions=[GONE])


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    """Its broker is in service, and says nothing by itself."""
    settings = ControllerSettings(rules=DefinedConfigs({}), node_id=NODE, has_authorizer=True)
    running = node_over(GatedLog(tmp_path), settings=settings)
    await running.start()
    await running.join(identity())
    yield running
    await running.stop()


async def beat(node: OneNode, offset: int, **fields: Any) -> None:
    epoch = node.image.brokers[NODE].epoch
    request = BrokerHeartbeatRequest(broker_id=NODE, broker_epoch=epoch, current_metadata_offset=offset, **fields)
    await node.submit(request)


async def test_a_change_is_answered_when_the_broker_has_it(node: OneNode) -> None:
    for request in (CREATE, DELETE, MAKE_USER, REMOVE_USER):
        before = node.image.offset
        reply = node.submit(request)
        await beat(node, before)
        assert node.image.offset > before, "it is committed"
        assert not reply.done(), "and the broker goes by the old rules"
        await beat(node, node.image.offset)
        await asyncio.wait_for(reply, 30)


async def test_a_repetition_that_finds_nothing_waits_for_the_change_before(node: OneNode) -> None:
    first = node.submit(CREATE)
    again = node.submit(CREATE)
    await beat(node, node.image.offset - 1)
    assert not again.done(), "the answer to the first may have been lost"
    changed = node.image.offset
    await node.submit(create("flights"))
    await beat(node, changed)
    await asyncio.gather(first, again)
    assert node.image.offset > changed
    await asyncio.wait_for(node.submit(CREATE), 30)  # what came after the rules is not waited for: no broker tells soon


async def test_a_repetition_at_a_new_controller_waits_for_all_that_was_before_it(node: OneNode) -> None:
    made = active_controller(has_authorizer=True)
    carry_out(made, CREATE)
    heir = successor(made, has_authorizer=True)
    assert heir.decide(CREATE, 0).records == []
    assert heir.state.gone_by_offset == heir.state.next_offset - 1


async def test_a_broker_that_is_fenced_is_not_waited_for(node: OneNode) -> None:
    before = node.image.offset
    reply = node.submit(CREATE)
    await beat(node, before)
    assert not reply.done()
    await beat(node, before, want_fence=True)
    assert not node.image.brokers[NODE].active
    await asyncio.wait_for(reply, 30)


async def test_nobody_is_told_so_by_a_controller_that_is_none_any_more(node: OneNode) -> None:
    before = node.image.offset
    reply = node.submit(CREATE)
    await beat(node, before)
    node.controller.resign()
    assert await refused(reply) == ErrorCode.NOT_CONTROLLER


async def test_nor_by_one_that_resigned_before_the_change_was_committed(node: OneNode) -> None:
    node.stored.started.clear()
    node.stored.open.clear()
    reply = node.submit(CREATE)
    await asyncio.to_thread(node.stored.started.wait, 30)
    node.controller.resign()
    node.stored.open.set()
    assert await refused(reply) == ErrorCode.NOT_CONTROLLER


async def test_a_broker_has_a_record_when_all_have_heard_of_it(node: OneNode) -> None:
    told: list[tuple[int, int]] = []

    def listener(records: Sequence[MetadataRecord]) -> None:
        told.append((node.log.told_offset, node.image.offset))

    node.add_listener(listener)
    before = node.image.offset
    many = [RULE.replace(resource_name=f"t{number}") for number in range(450)]
    reply = node.submit(CreateAclsRequest(creations=many))
    while len(told) < 3:
        await asyncio.sleep(0)
    await beat(node, node.log.told_offset)
    await asyncio.wait_for(reply, 30)
    assert told[:3] == [(before, before + 450)] * 3
    assert node.log.told_offset == node.image.offset


class Applied(Heartbeats):
    """All brokers have applied all up to an offset."""

    def __init__(self) -> None:
        super().__init__(1, NODE)
        self.offset = 0

    def seen_until(self, image: ClusterImage, broker_ids: Iterable[int]) -> float:
        return self.offset


class Waits(asyncio.Future[int]):
    """It notes when somebody looks at it."""

    looks = 0

    def done(self) -> bool:
        self.looks += 1
        return super().done()


async def test_a_look_ends_at_the_first_record_that_is_not_seen() -> None:
    seen, applied = SeenByBrokers(ClusterImage()), Applied()
    waiting = [Waits() for _ in range(1_000)]
    for offset, one in enumerate(waiting):
        seen.answer(offset, one, offset)
    applied.offset = 2
    for _ in range(3):
        seen.look(applied)
    assert [one.looks for one in waiting] == [1] * 3 + [0] * 997
    assert [one.result() for one in waiting if one.done()] == [0, 1, 2]


async def test_who_waits_no_longer_is_not_kept() -> None:
    seen, applied = SeenByBrokers(ClusterImage()), Applied()
    waiting = [asyncio.Future[int]() for _ in range(4)]
    for offset, one in enumerate(waiting, 1):
        seen.answer(offset, one, offset)
    waiting[2].cancel()
    await asyncio.sleep(0)
    assert list(seen._unseen) == [waiting[0], waiting[1], waiting[3]]
    waiting[0].cancel()
    applied.offset = 4
    seen.look(applied)
    assert [waiting[1].result(), waiting[3].result()] == [2, 4]
