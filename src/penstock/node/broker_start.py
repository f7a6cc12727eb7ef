"""The broker of a node, put together, started and stopped: registration, logs, groups, upkeep, listeners.

| step                                              | what can go wrong                                     |
| ------------------------------------------------- | ----------------------------------------------------- |
| register at the active controller, catch up       | no controller is found, or it refuses this broker     |
| open the logs that the metadata gives to it       | damaged                                               |
| be let in                                         | no controller is found any more                       |
| start groups and upkeep, then listen              |                                                       |
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.controller.controller import DECISIONS
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.advertise import advertised_endpoints
from penstock.node.broker import Broker
from penstock.node.broker_lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleTimes
from penstock.node.connections import Connections
from penstock.node.controller_channel import ControllerChannel, LocalController, version_for
from penstock.node.controller_node import ControllerNode
from penstock.node.dispatch import Dispatcher
from penstock.node.dynamic_configs import DynamicConfigs
from penstock.node.fetch_sessions import FetchSessions
from penstock.node.group_driver import GroupDriver
from penstock.node.handler import RequestContext, load_handlers
from penstock.node.log_configs import TopicSettingsTable
from penstock.node.partitions import PartitionTable
from penstock.node.quorum_start import QuorumParts, connection_limits, peer_settings
from penstock.node.replicas import LocalReplicas
from penstock.node.server import BoundListener, Server
from penstock.node.upkeep import Upkeep, UpkeepIntervals
from penstock.protocol.framing import api_of_request
from penstock.protocol.schema import Message
from penstock.protocol.uuids import random_uuid

LOCAL_HOST = "127.0.0.1"


class BrokerParts:
    """What of a node serves clients. Making it starts nothing.

    `ended` is done when the broker cannot go on: another process took its id.
    """

    def __init__(
        self, parts: QuorumParts, settings: TopicSettingsTable, listeners: Sequence[BoundListener], *, was_clean: bool
    ) -> None:
        config, surroundings, directories = parts.config, parts.surroundings, parts.directories
        self._parts = parts
        self._listeners = listeners
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.channel = _channel(parts)
        self.upkeep = Upkeep(directories, _intervals(config), surroundings.now_ms)
        table = PartitionTable()
        self.replicas = LocalReplicas(
            node_id=config.node_id,
            image=parts.image,
            table=table,
            directories=directories,
            settings=settings,
            upkeep=self.upkeep,
            now_ms=surroundings.now_ms,
        )
        self.broker = Broker(
            config=config,
            node_id=config.node_id,
            cluster_id=directories.cluster_id,
            image=parts.image,
            partitions=table,
            replicas=self.replicas,
            controller=self.channel,
            handlers=load_handlers(),
            random=surroundings.random,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, surroundings.random),
            now_ms=surroundings.now_ms,
            kraft_version=lambda: parts.quorum.quorum.kraft_version,
        )
        self.dynamic_configs = DynamicConfigs(config, parts.image, config.node_id)
        self.dynamic_configs.on_change(settings.forget)
        self.connections = Connections(Dispatcher(self.broker), connection_limits(config), asyncio.get_running_loop())
        self._server = Server(self.connections)
        self.lifecycle = BrokerLifecycle(
            BrokerIdentity(
                node_id=config.node_id,
                incarnation_id=random_uuid(surroundings.random),
                endpoints=advertised_endpoints(
                    config.advertised_listeners, [listener.endpoint for listener in listeners]
                ),
                rack=config.broker_rack,
                previous_epoch=directories.clean_broker_epoch if was_clean else -1,
            ),
            self.channel,
            parts.log,
            LifecycleTimes(
                heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
                session_timeout_ms=config.broker_session_timeout_ms,
                registration_timeout_ms=config.initial_broker_registration_timeout_ms,
            ),
            on_registered=self._registered,
            on_replaced=self._end,
        )

    def _registered(self, epoch: int) -> None:
        self.broker.broker_epoch = epoch

    def _end(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    async def start(self) -> None:
        """Join the cluster and serve. If that fails, nothing is left at work."""
        try:
            await self._start()
        except (Exception, asyncio.CancelledError):
            await self._stop()
            raise

    async def _start(self) -> None:
        await self.lifecycle.register()
        self.dynamic_configs.reload()
        self.replicas.open_all()
        self.broker.groups = GroupDriver(self.broker)
        self._listen_to_metadata()
        await self.lifecycle.unfence()
        self.broker.groups.start()
        self.upkeep.start()
        await self._server.listen(self._listeners)

    async def stop(self) -> None:
        """Hand over what this broker leads, and serve nobody any more."""
        await self._stop(hand_over=self._parts.config.controlled_shutdown_enable)

    async def _stop(self, *, hand_over: bool = False) -> None:
        async with AsyncExitStack() as parts:  # Each is stopped, the last one first, even if another cannot be.
            parts.push_async_callback(self.channel.stop)
            parts.push_async_callback(self.upkeep.stop)
            parts.push_async_callback(self._server.stop)
            if self.broker.groups is not None:
                # Before the server: members that wait for a rebalance would hold it up.
                parts.push_async_callback(self.broker.groups.stop)
            await self.lifecycle.leave(hand_over=hand_over)

    def _listen_to_metadata(self) -> None:
        config, groups = self._parts.config, self.broker.groups
        self.dynamic_configs.on_change(self.replicas.configure_all)
        self.dynamic_configs.on_change(lambda: self.connections.set_limits(connection_limits(config)))
        log = self._parts.log
        log.add_listener(self.dynamic_configs.on_metadata, self.dynamic_configs.reload)
        log.add_listener(self.replicas.on_metadata, self.replicas.on_new_image)
        log.add_listener(groups.on_metadata, groups.on_new_image)


def _channel(parts: QuorumParts) -> ControllerChannel:
    node = parts.controller_node
    return ControllerChannel(
        parts.quorum,
        parts.log,
        None if node is None else LocalController(node.node_id, partial(_answer_locally, node)),
        peer_settings(parts.config, parts.surroundings, request_timeout_ms=parts.config.request_timeout_ms),
    )


async def _answer_locally(node: ControllerNode, command: Message, context: RequestContext | None) -> Any:
    """What this process's own controller says: to a command, or as a handler of its listeners does."""
    if type(command) in DECISIONS:
        return await node.controller.submit(command)
    key = api_of_request(command).key
    version = version_for(command)
    asked = RequestContext(key, version, 0, None, LOCAL_HOST, "", -1)
    reply = node.handlers[key].function(
        node, asked if context is None else replace(context, api_version=version), command
    )
    return await reply if hasattr(reply, "__await__") else reply


def _intervals(config: BrokerConfig) -> UpkeepIntervals:
    return UpkeepIntervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_point_checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
    )
