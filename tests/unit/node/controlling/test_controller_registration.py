"""A controller registers itself, and again where that was taken away while it lives."""

import asyncio
from pathlib import Path
from uuid import UUID

from tests.unit.node.controller_node import Channel, node_over
from tests.unit.node.gated_log import GatedLog

from penstock.metadata.image import Endpoint
from penstock.node.controlling.controller_registration import ControllerRegistration
from penstock.protocol.messages.unregister_controller import UnregisterControllerRequest

OBSERVER = 9


async def test_a_controller_that_lives_registers_anew(tmp_path: Path) -> None:
    node = node_over(GatedLog(tmp_path))
    await node.start()
    changed = asyncio.Event()
    node.add_listener(lambda _: changed.set())

    async def until(registered: bool) -> None:
        while (OBSERVER in node.image.controllers) is not registered:
            changed.clear()
            await changed.wait()

    endpoints = [Endpoint("CONTROLLER", "127.0.0.1", 9093)]
    registration = ControllerRegistration(OBSERVER, UUID(int=1), endpoints, Channel(node.controller), node.log)
    registration.start()
    for _ in range(3):
        await until(registered=True)
        reply = await node.submit(UnregisterControllerRequest(controller_id=OBSERVER))
        assert reply.error_code == 0
    await until(registered=True)
    await registration.stop()
    await node.stop()
