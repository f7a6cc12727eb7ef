"""A controller registers itself: the metadata say where controllers are found and what they understand (KIP-919).

It does so at the start of its process, as soon as there is an active controller, perhaps itself, and the cluster's
metadata.version has the record; and again when it was unregistered though it lives (KIP-1312). A quorum of one without
a listener of its own has nothing to say.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from penstock.metadata.features import CONTROLLER_REGISTRATION_LEVEL, METADATA_VERSION, SUPPORTED_FEATURES
from penstock.metadata.image import Endpoint
from penstock.node.controlling.commands import ActiveController
from penstock.node.environment.tasks import Tasks
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)

RETRY_S: Final = 1.0

logger = logging.getLogger(__name__)


class ControllerRegistration:
    def __init__(
        self,
        node_id: int,
        incarnation_id: UUID,
        endpoints: Sequence[Endpoint],
        controller: ActiveController,
        log: MetadataLog,
    ) -> None:
        self._command = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            listeners=[
                Listener(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.newest)
                for name, levels in SUPPORTED_FEATURES.items()
            ],
        )
        self._node_id = node_id
        self._controller = controller
        self._image = log.image
        self._metadata_changed = asyncio.Event()
        self._tasks = Tasks()
        log.add_listener(lambda _: self._metadata_changed.set(), self._metadata_changed.set)

    def start(self) -> None:
        self._tasks.keep(self._register, "controller registration")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _register(self) -> None:
        while self._image.features.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION_LEVEL:
            await self._changed()
        while True:
            self._metadata_changed.clear()
            await self._registered()
            await self._metadata_changed.wait()  # until it is in this node's metadata; another change asks once more
            while self._node_id in self._image.controllers:
                await self._changed()

    async def _changed(self) -> None:
        self._metadata_changed.clear()
        await self._metadata_changed.wait()

    async def _registered(self) -> None:
        while True:
            try:
                reply = await self._controller.submit(self._command, ControllerRegistrationResponse)
                code = ErrorCode(reply.error_code)
            except KafkaError as error:
                code = error.code
            if code == ErrorCode.NONE:
                return
            logger.info("this controller could not be registered yet: %s", code.name)
            await asyncio.sleep(RETRY_S)
