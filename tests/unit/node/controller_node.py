"""A quorum of one with its controller and, if wanted, its broker, over a log that a test can hold up."""

import asyncio
import random
import time
from typing import Any
from uuid import UUID

from tests.unit.node.gated_log import GatedLog

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.log.disk import Disk
from penstock.metadata.image import ClusterImage, Endpoint
from penstock.node.controlling.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from penstock.node.controlling.driver import ControllerDriver
from penstock.node.controlling.lease import BrokerLease
from penstock.node.metrics.registry import Registry
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.metadata_log import MetadataLog, OnRecords, SnapshotLimits
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import StateFile
from penstock.node.serving.handler import RequestContext
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.schema import Message
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter

NODE = 1
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


class Channel:
    """The way to a controller that is in this process and always active; it remembers who asked last."""

    def __init__(self, controller: ControllerDriver) -> None:
        self._controller = controller
        self.asked_by: RequestContext | None = None

    def submit(
        self,
        request: Message,
        answer: type[Message],
        *,
        deadline_s: float | None = None,
        context: RequestContext | None = None,
    ) -> asyncio.Future[Any]:
        self.asked_by = context
        return self._controller.submit(request, deadline_s, asker="" if context is None else context.session.asker)


class OneNode:
    """The parts, started or not."""

    def __init__(self, stored: GatedLog, settings: ControllerSettings, limits: SnapshotLimits) -> None:
        self.stored = stored
        self.image = ClusterImage(CLUSTER)
        self.log = MetadataLog(self.image, lambda: 1_000, limits)
        self.controller = ControllerDriver(self.log, settings, random.Random(1), Registry(), now_ms=lambda: 1_000)
        local = Voter(ReplicaKey(NODE))
        self.quorum = QuorumDriver(
            Member(local, Quorum.of([local], 0), RaftSettings(leases=settings.leases)),
            Stores(stored, stored.snapshots, StateFile(Disk(), stored.directory)),
            NoPeers(),
            self.log,
            Clock(lambda: 1_000),
            random.Random(2),
        )
        self.submit = self.controller.submit
        self.metrics = self.controller.metrics

    def add_listener(self, on_records: OnRecords) -> None:
        self.log.add_listener(on_records, lambda: None)

    async def start(self) -> None:
        """Returns when the controller is active, or the driver has failed."""
        changed = asyncio.Event()
        self.log.add_leader_listener(lambda leader_id, epoch: changed.set())
        await self.log.start(self.quorum)
        while not self.controller.is_active:
            changed.clear()
            await changed.wait()

    async def join(self, identity: BrokerIdentity) -> int:
        """Registers the broker and lets it in; its epoch."""
        lifecycle = BrokerLifecycle(
            identity,
            Channel(self.controller),
            self.log,
            lease=BrokerLease(9_000, time.monotonic, Registry()),
            on_replaced=lambda error: None,
        )
        await lifecycle.register()
        await lifecycle.unfence()
        await lifecycle.leave()
        return lifecycle.epoch

    async def stop(self) -> None:
        self.controller.resign()
        await self.quorum.stop()
        await self.log.close()


def node_over(
    stored: GatedLog,
    limits: SnapshotLimits = SnapshotLimits(),
    settings: ControllerSettings | None = None,
    *,
    leases: bool = False,
) -> OneNode:
    known = settings or ControllerSettings(rules=DefinedConfigs({}), node_id=NODE, leases=leases)
    return OneNode(stored, known, limits)


def identity(run: int = 1, previous_epoch: int = -1) -> BrokerIdentity:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    return BrokerIdentity(
        node_id=NODE, incarnation_id=UUID(int=run), endpoints=[endpoint], previous_epoch=previous_epoch
    )


async def started(stored: GatedLog, limits: SnapshotLimits = SnapshotLimits()) -> OneNode:
    node = node_over(stored, limits)
    await node.start()
    await node.join(identity())
    return node


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])
