import asyncio
import gc
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.controller_node import NODE, create, identity, node_over, started
from tests.unit.node.controlling.refusals import refused
from tests.unit.node.gated_log import GatedLog

from penstock.controller.controller import Controller
from penstock.controller.decision import MANY_RECORDS
from penstock.controller.decisions import MANY
from penstock.metadata import features
from penstock.metadata.image import NOBODY, ResourceType
from penstock.metadata.record_frames import decode_record, encode_record
from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.metadata.snapshot import encode_snapshot, record_values
from penstock.node.controlling import driver as controller_driver
from penstock.node.quorum.driver import QuorumDriver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_batches
from penstock.raft.ports import SnapshotId

SESSION_MS = 9_000


DEFAULT_FEATURES = {
    features.METADATA_VERSION: features.NEWEST_METADATA_VERSION,
    features.ELIGIBLE_LEADER_REPLICAS: 1,
    features.GROUP_VERSION: 1,
    features.SHARE_VERSION: 2,
    features.STREAMS_VERSION: 1,
    features.TRANSACTION_VERSION: 2,
}


@pytest.fixture
def memory(tmp_path: Path) -> GatedLog:
    return GatedLog(tmp_path)


async def test_an_empty_cluster_gets_its_features_a_leader_and_a_broker(memory: GatedLog) -> None:
    driver = await started(memory)
    assert driver.image.features == DEFAULT_FEATURES
    assert driver.image.config_of(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert (driver.image.controller_id, driver.image.controller_epoch) == (NODE, 1)
    assert driver.image.brokers[NODE].active
    assert driver.image.brokers[NODE].epoch == 8, "after the control record, the features and what they need"


@pytest.mark.parametrize(("formatted", "expected"), [(20, {"metadata.version": 20}), (99, {"metadata.version": 33})])
async def test_an_empty_cluster_gets_the_features_that_it_was_formatted_with(
    memory: GatedLog, formatted: int, expected: dict[str, int]
) -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=formatted)
    chunks = encode_snapshot([level], leader_epoch=0, last_timestamp_ms=1, now_ms=1)
    memory.snapshots.write(SnapshotId(0, 0), chunks)
    driver = await started(memory)
    assert driver.image.features == expected
    await driver.stop()
    records = [record for record in records_of(memory) if isinstance(record, FeatureLevelRecord)]
    assert {record.name: record.feature_level for record in records} == expected, (
        "it is in the log, for those without the snapshot"
    )


async def test_an_empty_cluster_gets_the_credentials_that_it_was_formatted_with(memory: GatedLog) -> None:
    credential = UserScramCredentialRecord(name="ada", mechanism=1, iterations=4096)
    memory.snapshots.write(
        SnapshotId(0, 0), encode_snapshot([credential], leader_epoch=0, last_timestamp_ms=1, now_ms=1)
    )
    driver = await started(memory)
    assert list(driver.image.security.scram_credentials.values()) == [credential]
    await driver.stop()
    assert credential in records_of(memory)


async def test_a_new_controller_aborts_the_metadata_transaction_that_was_left_open(memory: GatedLog) -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=21)
    for offset, record in enumerate([BeginTransactionRecord(name="Bootstrap records"), level]):
        value = Record(timestamp_ms=1, value=encode_record(record))
        memory.append(encode_batch([value], base_offset=offset, partition_leader_epoch=0))
    driver = await started(memory)
    assert driver.image.features == DEFAULT_FEATURES, "the old one does not hold"
    await driver.submit(create("flights"))
    await driver.stop()
    aborted = [record for record in records_of(memory) if isinstance(record, AbortTransactionRecord)]
    assert [record.reason for record in aborted] == ["another controller is active now"]


async def test_records_are_written_as_the_level_of_the_cluster_has_them(memory: GatedLog) -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=14)
    memory.snapshots.write(SnapshotId(0, 0), encode_snapshot([level], leader_epoch=0, last_timestamp_ms=1, now_ms=1))
    driver = await started(memory)
    await driver.submit(create("flights"))
    assert driver.image.topics["flights"].partitions[0].directories == (), "the level has none"
    await driver.stop()
    assert {value[1]: value[2] for value in values_of(memory) if value[1] in (0, 3)} == {0: 2, 3: 0}


def values_of(log: GatedLog) -> list[bytes]:
    data = log.read(0, 1 << 20)
    return [
        bytes(record.value or b"")
        for position, header in iterate_batches(data)
        if not header.is_control
        for record in decode_batch(data, position)
    ]


def records_of(log: GatedLog) -> list[MetadataRecord]:
    data = log.read(0, 1 << 20)
    return [
        record
        for position, header in iterate_batches(data)
        if not header.is_control
        for record in map(decode_record, record_values(data, position, header))
    ]


async def test_who_is_told_that_a_topic_exists_can_use_it(memory: GatedLog) -> None:
    driver = await started(memory)
    seen: list[tuple[str, bool]] = []

    def listener(records: Sequence[MetadataRecord]) -> None:
        seen.extend((r.name, r.name in driver.image.topics) for r in records if isinstance(r, TopicRecord))

    driver.add_listener(listener)
    memory.started.clear()
    memory.open.clear()
    reply = driver.submit(create("flights"))
    await asyncio.to_thread(memory.started.wait, 30)
    assert not reply.done()
    assert "flights" not in driver.image.topics
    memory.open.set()
    (result,) = (await reply).topics
    assert result.error_code == ErrorCode.NONE
    assert seen == [("flights", True)]
    assert driver.image.offset == memory.end_offset - 1


async def test_commands_are_decided_in_order_against_what_is_not_committed_yet(memory: GatedLog) -> None:
    driver = await started(memory)
    syncs = memory.syncs
    commands = [create("flights"), create("flights"), DeleteTopicsRequest(topic_names=["flights"]), create("flights")]
    replies = await asyncio.gather(*map(driver.submit, commands))
    codes = [replies[0].topics[0], replies[1].topics[0], replies[2].responses[0], replies[3].topics[0]]
    assert [result.error_code for result in codes] == [0, ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0]
    assert memory.syncs == syncs + 1, "four commands, one sync"
    assert list(driver.image.topics) == ["flights"]
    for latency in (driver.metrics.queue_time, driver.metrics.processing_time):
        assert latency.count == 4 + 2
        assert latency.max <= latency.sum


async def test_a_refusal_waits_for_what_it_was_decided_on(memory: GatedLog) -> None:
    driver = await started(memory)
    memory.open.clear()
    first, second = driver.submit(create("flights")), driver.submit(create("flights"))
    await asyncio.to_thread(memory.started.wait, 30)
    assert not second.done()
    memory.open.set()
    await second
    assert first.done()


async def test_more_commands_than_one_turn_takes(memory: GatedLog) -> None:
    driver = await started(memory)
    names = [f"topic-{number}" for number in range(3 * controller_driver.COMMANDS_PER_TURN + 1)]
    await asyncio.gather(*(driver.submit(create(name)) for name in names))
    assert list(driver.image.topics) == names


async def test_a_fault_in_one_decision_leaves_the_queue_alive(
    memory: GatedLog, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await started(memory)
    broken = create("flights", partitions="three")  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        faulty, good = driver.submit(broken), await driver.submit(create("delays"))
    assert await refused(faulty) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert good.topics[0].error_code == ErrorCode.NONE
    assert len(caplog.records) == 1
    assert driver.metrics.failures == 1


async def test_a_controller_that_fails_to_follow_its_own_decision_begins_anew_with_what_is_committed(
    memory: GatedLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await started(memory)
    active = asyncio.Event()
    node.log.add_leader_listener(lambda leader_id, epoch: active.set() if leader_id == NODE else None)

    def broken(self: Controller, records: Sequence[MetadataRecord]) -> None:
        raise KeyError("half of it")

    with monkeypatch.context() as fault:
        fault.setattr(Controller, "apply", broken)
        code = await refused(node.submit(create("flights")))
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR, "nobody knows what becomes of it"
    code = await refused(node.submit(create("delays")))
    assert code == ErrorCode.NOT_CONTROLLER, "its state is not that of the log"
    await active.wait()
    assert (await node.submit(create("flights"))).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    await node.stop()


async def test_a_broker_is_fenced_though_that_could_not_be_written_down_at_first(
    memory: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await started(memory)
    now_ms = [1_000]
    monkeypatch.setattr(node.controller, "_now_ms", lambda: now_ms[0])

    def full(records: Sequence[MetadataRecord], epoch: int) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    def pass_a_session() -> None:
        now_ms[0] += SESSION_MS
        node.controller._wake()

    with monkeypatch.context() as disk:
        disk.setattr(node.log, "append", full)
        pass_a_session()
    for _ in range(2):  # a whole session is granted anew, and runs out
        pass_a_session()
    await node.submit(create("flights"))
    assert node.image.brokers[NODE].fenced


async def test_a_fault_in_a_listener_leaves_the_others_alone(
    memory: GatedLog, caplog: pytest.LogCaptureFixture
) -> None:
    driver = await started(memory)
    heard: list[int] = []

    def broken(records: Sequence[MetadataRecord]) -> None:
        raise RuntimeError("broken")

    driver.add_listener(broken)
    driver.add_listener(lambda records: heard.append(len(records)))
    reply = await driver.submit(create("flights", partitions=2))
    assert reply.topics[0].error_code == ErrorCode.NONE
    assert heard == [3]
    assert len(caplog.records) == 1


async def test_a_disk_that_fails_is_an_error_in_the_reply(memory: GatedLog) -> None:
    driver = await started(memory)
    memory.write_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    assert await refused(driver.submit(create("flights"))) == ErrorCode.KAFKA_STORAGE_ERROR
    memory.write_error = None
    assert (await driver.submit(create("flights"))).topics[0].error_code == ErrorCode.NONE
    memory.sync_error = OSError("gone")
    assert await refused(driver.submit(create("delays"))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "delays" not in driver.image.topics


async def test_the_queue_is_bounded(memory: GatedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = await started(memory)
    monkeypatch.setattr(controller_driver, "MAX_QUEUED_COMMANDS", 2)
    first, second, third = [driver.submit(create(name)) for name in ("a", "b", "c")]
    assert await refused(third) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    await asyncio.gather(first, second)
    assert list(driver.image.topics) == ["a", "b"]


async def test_who_asked_may_go_before_the_answer(memory: GatedLog) -> None:
    driver = await started(memory)
    asking = driver.submit(create("flights"))
    await asyncio.sleep(0)
    asking.cancel()
    await driver.submit(create("delays"))
    assert list(driver.image.topics) == ["flights", "delays"]


async def test_nobody_is_missed_who_goes_before_the_refusal(memory: GatedLog) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    driver = await started(memory)
    memory.sync_error = OSError("gone")
    asking, last = driver.submit(create("flights")), driver.submit(create("delays"))
    await asyncio.sleep(0)
    asking.cancel()
    assert await refused(last) == ErrorCode.KAFKA_STORAGE_ERROR
    gc.collect()
    assert not unheard, "no future failed whose exception was never retrieved"


async def test_what_nobody_waits_for_any_longer_is_not_decided(memory: GatedLog) -> None:
    driver = await started(memory)
    loop = asyncio.get_running_loop()
    late, gone = driver.submit(create("flights"), deadline_s=loop.time()), driver.submit(create("delays"))
    gone.cancel()
    for waiting in (late, gone):
        await asyncio.wait([waiting])
    await driver.submit(create("prices"))
    assert await refused(late) == ErrorCode.REQUEST_TIMED_OUT
    assert "delays" not in driver.image.topics


async def test_what_is_not_committed_by_its_deadline_is_refused_and_may_hold_all_the_same(memory: GatedLog) -> None:
    driver = await started(memory)
    memory.open.clear()
    memory.started.clear()
    late = driver.submit(create("flights"), deadline_s=asyncio.get_running_loop().time() + 0.001)
    await asyncio.to_thread(memory.started.wait, 30)
    assert await refused(late) == ErrorCode.REQUEST_TIMED_OUT
    memory.open.set()
    await driver.submit(create("delays"))
    assert list(driver.image.topics) == ["flights", "delays"]


async def test_what_is_changed_and_not_heard_of_is_told_once_it_is_committed(memory: GatedLog) -> None:
    driver = await started(memory)
    unheard: list[str] = []
    memory.open.clear()
    memory.started.clear()

    def submit(name: str, deadline_s: float) -> asyncio.Future[Any]:
        return driver.submit(create(name), deadline_s, unheard=lambda reply: unheard.append(reply.topics[0].name))

    now_s = asyncio.get_running_loop().time()
    late, gone, heard = submit("late", now_s + 0.001), submit("gone", now_s + 60), submit("heard", now_s + 60)
    await asyncio.to_thread(memory.started.wait, 30)
    assert await refused(late) == ErrorCode.REQUEST_TIMED_OUT
    gone.cancel()
    assert unheard == [], "it may not be made at all"
    memory.open.set()
    await heard
    refusal = submit("heard", now_s + 60)
    refusal.cancel()
    await driver.submit(create("delays"))
    assert unheard == ["late", "gone"]
    await driver.stop()


async def test_a_controller_within_its_lease_renews_that_of_a_broker_at_once(memory: GatedLog) -> None:
    node = node_over(memory, leases=True)
    await node.start()
    epoch = await node.join(identity())
    end_offset, memory_syncs = node.quorum.log_end_offset, memory.syncs
    reply = await node.submit(BrokerHeartbeatRequest(broker_id=NODE, broker_epoch=epoch, current_metadata_offset=99))
    assert (reply.error_code, reply.is_fenced) == (ErrorCode.NONE, False)
    assert (node.quorum.log_end_offset, memory.syncs) == (end_offset, memory_syncs)
    await node.stop()


async def test_a_controller_without_a_lease_proves_that_it_leads_before_it_renews_one(
    memory: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_over(memory, leases=True)
    await node.start()
    epoch = await node.join(identity())
    monkeypatch.setattr(QuorumDriver, "has_all", False)
    memory.open.clear()
    end_offset = node.quorum.log_end_offset
    heartbeat = BrokerHeartbeatRequest(broker_id=NODE, broker_epoch=epoch, current_metadata_offset=99)
    reply = node.submit(heartbeat)
    while node.quorum.log_end_offset == end_offset:
        await asyncio.sleep(0)
    assert not reply.done()
    assert [type(record) for record in records_of(memory)][-1] is NoOpRecord
    memory.open.set()
    assert (await reply).error_code == ErrorCode.NONE
    pending = node.submit(heartbeat)
    node.quorum.resign()
    assert await refused(pending) == ErrorCode.NOT_CONTROLLER
    await node.stop()


async def test_a_stopped_controller_refuses(memory: GatedLog) -> None:
    driver = await started(memory)
    pending = driver.submit(create("flights"))
    await asyncio.sleep(0)
    await driver.stop()
    assert (await pending).topics[0].error_code == ErrorCode.NONE
    assert await refused(driver.submit(AllocateProducerIdsRequest(broker_id=NODE))) == ErrorCode.NOT_CONTROLLER
    assert driver.image.controller_id == NOBODY


async def test_a_large_command_is_decided_beside_the_loop_and_those_behind_it_wait(memory: GatedLog) -> None:
    driver = await started(memory)
    large = driver.submit(create("large", partitions=500))
    behind = driver.submit(create("large"))
    assert (await large).topics[0].error_code == ErrorCode.NONE
    assert (await behind).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(driver.image.topics["large"].partitions) == 500
    await driver.stop()


async def test_very_many_topics_are_committed_in_parts(memory: GatedLog) -> None:
    driver = await started(memory)
    batches: list[int] = []
    driver.add_listener(lambda records: batches.append(len(records)))
    request = create("t")
    request.topics = [request.topics[0].replace(name=f"t{number}") for number in range(300)]
    response = await driver.submit(request)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.NONE}
    assert len(driver.image.topics) == 300
    assert max(batches) <= MANY_RECORDS + 1
    await driver.stop()


async def test_a_broker_with_many_directories_is_back_together_with_what_its_crash_has_cost(memory: GatedLog) -> None:
    """Else it could lead what a power cut took, where the controller dies between the two."""
    driver = await started(memory)
    await driver.submit(create("t", partitions=2 * MANY_RECORDS))
    await driver.stop()
    driver, batches = node_over(memory), list[Sequence[MetadataRecord]]()
    await driver.start()
    driver.add_listener(batches.append)
    await driver.join(identity(2).replace(log_dirs=lambda: [UUID(int=1_000 + number) for number in range(MANY)]))
    back = next(batch for batch in batches if any(isinstance(one, RegisterBrokerRecord) for one in batch))
    assert sum(isinstance(one, PartitionChangeRecord) for one in back) == 2 * MANY_RECORDS
    await driver.stop()


async def test_a_large_command_is_held_and_refused_as_any_other(memory: GatedLog) -> None:
    """What a thread has decided meanwhile was for nothing."""
    driver = await started(memory)
    waiting = driver.submit(create("large", partitions=500))
    await asyncio.sleep(0)
    driver.controller.hold()
    while driver.controller.queued == 0:
        await asyncio.sleep(0)
    assert not waiting.done()
    driver.controller.go_on()
    await asyncio.sleep(0)
    driver.controller.resign()
    assert await refused(waiting) == ErrorCode.NOT_CONTROLLER
    assert "large" not in driver.image.topics
    await driver.stop()
