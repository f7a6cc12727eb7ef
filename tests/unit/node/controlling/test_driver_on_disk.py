"""The controller's driver over a restart, with snapshots, and while it is handed over."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.controller_node import NODE, create, identity, node_over, started
from tests.unit.node.controlling.refusals import refused
from tests.unit.node.gated_log import GatedLog

from penstock.node.quorum.metadata_log import SnapshotLimits
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest


@pytest.fixture
def memory(tmp_path: Path) -> GatedLog:
    return GatedLog(tmp_path)


async def test_a_broker_of_another_cluster_cannot_join(memory: GatedLog) -> None:
    driver = await started(memory)
    driver.image.cluster_id = "another"
    with pytest.raises(KafkaError, match="INCONSISTENT_CLUSTER_ID"):
        await driver.join(identity(run=2))


async def test_a_restart_finds_everything_in_the_log_on_disk(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    log = GatedLog(directory)
    driver = await started(log)
    await driver.submit(create("flights", partitions=3))
    epoch = driver.image.brokers[NODE].epoch
    block = await driver.submit(AllocateProducerIdsRequest(broker_id=NODE, broker_epoch=epoch))
    log.partition_log.abandon()  # as a crash would

    again = node_over(GatedLog(directory))
    await again.start()
    assert list(again.image.topics["flights"].partitions) == [0, 1, 2]
    assert again.image.controller_epoch == 2
    assert again.image.offset == driver.image.offset + 1, "the control record of its epoch"
    epoch = await again.join(identity(run=2))
    assert epoch > driver.image.offset
    assert [p.leader_epoch for p in again.image.topics["flights"].partitions.values()] == [1, 1, 1]
    next_block = await again.submit(AllocateProducerIdsRequest(broker_id=NODE, broker_epoch=epoch))
    assert next_block.producer_id_start == block.producer_id_start + block.producer_id_len
    assert (directory / "00000000000000000000.log").stat().st_size > 0
    assert (directory / "quorum-state").exists()


async def test_after_a_clean_stop_leader_epochs_stay(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    log = GatedLog(directory)
    driver = await started(log)
    await driver.submit(create("flights"))
    await driver.stop()
    log.partition_log.close()
    again = node_over(GatedLog(directory))
    await again.start()
    await again.join(identity(run=2, previous_epoch=driver.image.brokers[NODE].epoch))
    assert again.image.topics["flights"].partitions[0].leader_epoch == 0


def checkpoints(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.checkpoint"))


async def test_a_snapshot_stands_for_the_log_before_it(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    log = GatedLog(directory)
    driver = await started(log, SnapshotLimits(max_bytes_between=2_000))
    for number in range(60):
        await driver.submit(create(f"topic-{number}"))
        await driver.submit(DeleteTopicsRequest(topic_names=[f"topic-{number - 1}"]))
    await driver.stop()
    name = checkpoints(directory)[-1]
    assert 0 < int(name.partition("-")[0]) <= driver.image.offset + 1
    assert log.start_offset > 0
    log.partition_log.close()

    again = node_over(GatedLog(directory))
    await again.start()
    assert list(again.image.records()) == list(driver.image.records())
    assert list(again.image.topics) == ["topic-59"]
    assert again.image.offset == driver.image.offset + 1, "the control record of its epoch"
    assert again.image.controller_epoch == 2


async def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    log = GatedLog(directory)
    driver = await started(log, SnapshotLimits(max_bytes_between=1))
    await driver.submit(create("flights"))
    await driver.stop()
    name = checkpoints(directory)[-1]
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content[:-1])
    with pytest.raises(DecodeError, match=name):
        await node_over(GatedLog(directory)).start()


async def test_while_it_is_handed_over_nothing_is_decided_and_nobody_refused(memory: GatedLog) -> None:
    driver = await started(memory)
    driver.controller.hold()
    waiting = driver.submit(create("flights"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert driver.controller.queued == 1
    driver.controller.go_on()
    await waiting
    assert "flights" in driver.image.topics


async def test_what_was_held_is_refused_where_another_one_is_active(memory: GatedLog) -> None:
    driver = await started(memory)
    driver.controller.hold()
    waiting = driver.submit(create("flights"))
    driver.controller.resign()
    await asyncio.sleep(0)
    assert not waiting.done()
    driver.controller.go_on()
    assert await refused(waiting) == ErrorCode.NOT_CONTROLLER


async def test_who_has_resigned_is_not_active_again_when_its_quorum_elects_it(memory: GatedLog) -> None:
    driver = await started(memory)
    assert driver.controller.is_active
    driver.controller.resign()
    driver.controller._leader_changed(NODE, 2)
    assert not driver.controller.is_active


async def test_a_session_ends_at_a_controller_that_decides_and_nowhere_else(memory: GatedLog) -> None:
    driver = await started(memory)
    controller, epoch = driver.controller, driver.image.brokers[NODE].epoch
    controller.hold()
    assert not controller.end_session(NODE, epoch)
    controller.go_on()
    assert not controller.end_session(NODE, epoch + 1), "a registration that there is not"
    assert controller.end_session(NODE, epoch)
    controller.resign()
    assert not controller.end_session(NODE, epoch)
