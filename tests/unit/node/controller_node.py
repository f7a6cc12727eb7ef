"""A controller driver over any metadata log, with its broker, and commands for it."""

import random
from pathlib import Path
from uuid import UUID

from penstock.controller.config_rules import DefinedConfigs
from penstock.controller.decision import ControllerSettings
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.metadata.image import ClusterImage, Endpoint
from penstock.node.controller_driver import ControllerDriver
from penstock.node.metadata_log import BatchLog, MetadataLog
from penstock.node.metadata_snapshots import SnapshotLimits
from penstock.node.registration import BrokerIdentity, join
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

NODE = 1


def driver_over(log: BatchLog, limits: SnapshotLimits = SnapshotLimits()) -> ControllerDriver:  # noqa: B008
    return ControllerDriver(
        MetadataLog(log, Disk(), NODE, lambda: 1_000, limits),
        ClusterImage("cluster"),
        ControllerSettings(rules=DefinedConfigs({}), node_id=NODE),
        random.Random(1),
        node_id=NODE,
        now_ms=lambda: 1_000,
    )


def identity(run: int = 1, previous_epoch: int = -1) -> BrokerIdentity:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    return BrokerIdentity(
        node_id=NODE, incarnation_id=UUID(int=run), endpoints=[endpoint], previous_epoch=previous_epoch
    )


async def started(log: BatchLog, limits: SnapshotLimits = SnapshotLimits()) -> ControllerDriver:  # noqa: B008
    driver = driver_over(log, limits)
    await driver.start()
    await join(driver, identity())
    return driver


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])


def on_disk(path: Path) -> PartitionLog:
    path.mkdir(exist_ok=True)
    return PartitionLog(OpenFiles(Disk()), Removals(Disk()), str(path), "__cluster_metadata", 0, LogConfig())
