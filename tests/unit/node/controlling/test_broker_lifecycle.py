"""A broker registers, is let in, tells that it lives, and goes: against a controller that answers as the test says."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage, Endpoint, ResourceType
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NodeEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from penstock.metadata.security_records import RemoveAccessControlEntryRecord, RemoveDelegationTokenRecord
from penstock.node.controlling import broker_lifecycle
from penstock.node.controlling.broker_lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleTimes
from penstock.node.controlling.lease import BrokerLease
from penstock.node.metrics.registry import Registry
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.schema import Message

NODE = 1
OTHER = 2
EPOCH = 10
OURS = UUID(int=1)
THEIRS = UUID(int=2)
TOPIC_ID = UUID(int=3)
LET_IN = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
REGISTERED = BrokerRegistrationResponse(broker_epoch=EPOCH)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_lifecycle, "RETRY_S", 0)


def refused(code: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)


def registration(node_id: int = NODE, epoch: int = EPOCH, incarnation: UUID = OURS) -> RegisterBrokerRecord:
    endpoint = NodeEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)
    return RegisterBrokerRecord(
        broker_id=node_id, broker_epoch=epoch, incarnation_id=incarnation, end_points=[endpoint], fenced=True
    )


class World:
    """The controller, the metadata log and the broker. Answers are given in their order; then heartbeats are fine."""

    def __init__(self, *answers: Message | Exception, times: LifecycleTimes | None = None) -> None:
        self.log = MetadataLog(ClusterImage("cluster"), lambda: 0)
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.ended: list[KafkaError] = []
        self.offline: list[UUID] = []
        self.clock_s = 0.0
        self.lease = BrokerLease(9_000, lambda: self.clock_s, Registry())
        self.broker = BrokerLifecycle(
            BrokerIdentity(
                node_id=NODE,
                incarnation_id=OURS,
                endpoints=[Endpoint("PLAINTEXT", "127.0.0.1", 9092)],
                offline_log_dirs=lambda: self.offline,
            ),
            self,
            self.log,
            times or LifecycleTimes(heartbeat_interval_ms=1),
            lease=self.lease,
            on_replaced=self.ended.append,
        )

    def submit(self, command: Message, answer_class: type[Message], **rest: Any) -> asyncio.Future[Any]:
        self.asked.append(command)
        answer = self.answers.pop(0) if self.answers else LET_IN
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            reply.set_result(answer)
        return reply

    def commit(self, *records: MetadataRecord) -> None:
        offset = self.log.image.offset + 1
        batch = encode_batch(
            [Record(timestamp_ms=1, value=encode_record(record)) for record in records], base_offset=offset
        )
        self.log.committed(bytes(batch), offset, offset + len(records) - 1)

    async def joined(self) -> None:
        self.commit(registration())
        self.commit(UnfenceBrokerRecord(id=NODE, epoch=EPOCH))
        await self.broker.register()
        await self.broker.unfence()

    def commands(self, kind: type[Message]) -> list[Any]:
        return [command for command in self.asked if isinstance(command, kind)]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0)


async def test_it_is_registered_when_its_own_registration_was_applied_here() -> None:
    world = World(REGISTERED)
    registering = asyncio.ensure_future(world.broker.register())
    await until(lambda: world.lease.broker_epoch == EPOCH)
    world.commit(registration(incarnation=THEIRS, epoch=5))
    await asyncio.sleep(0)
    assert not registering.done(), "that was an earlier process"
    world.commit(registration())
    await registering
    (command,) = world.commands(BrokerRegistrationRequest)
    assert (command.broker_id, command.cluster_id, command.previous_broker_epoch) == (NODE, "cluster", -1)


@pytest.mark.parametrize(
    "record",
    [
        RemoveAccessControlEntryRecord(id=UUID(int=5)),
        RemoveDelegationTokenRecord(token_id="of ada"),
        ConfigRecord(resource_type=ResourceType.BROKER, resource_name="9", name="listener.name.x.sasl.jaas.config"),
    ],
    ids=lambda record: type(record).__name__,
)
async def test_it_tells_at_once_that_it_goes_by_what_a_client_waits_for(record: MetadataRecord) -> None:
    """Whichever broker's log-ins they are: all brokers are waited for."""
    world = World(REGISTERED, times=LifecycleTimes(heartbeat_interval_ms=60_000))
    await world.joined()
    told = len(world.commands(BrokerHeartbeatRequest))
    world.commit(record)
    await until(lambda: len(world.commands(BrokerHeartbeatRequest)) > told)
    assert world.asked[-1].current_metadata_offset == world.log.image.offset
    await world.broker.leave(hand_over=False)


async def test_what_may_pass_is_tried_again() -> None:
    world = World(refused(ErrorCode.REQUEST_TIMED_OUT), refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION), REGISTERED)
    world.commit(registration())
    await world.broker.register()
    assert len(world.asked) == 3


async def test_it_says_once_that_another_process_has_its_id(caplog: pytest.LogCaptureFixture) -> None:
    duplicate = refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    world = World(refused(ErrorCode.REQUEST_TIMED_OUT), duplicate, duplicate, REGISTERED)
    world.commit(registration())
    await world.broker.register()
    (record,) = caplog.records
    assert f"broker {NODE} is registered with other log directories" in record.getMessage()


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION])
async def test_what_stays_ends_the_start(code: ErrorCode) -> None:
    with pytest.raises(KafkaError, match=f"the controller refuses this broker: {code.name}"):
        await World(refused(code)).broker.register()


async def test_a_broker_that_is_too_old_names_the_features_and_how_to_lower_them() -> None:
    world = World(refused(ErrorCode.UNSUPPORTED_VERSION))
    levels = {"share.version": 3, "streams.version": 2, "eligible.leader.replicas.version": 1}
    world.commit(*(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()))
    with pytest.raises(KafkaError) as caught:
        await world.broker.register()
    said = str(caught.value)
    assert "share.version is at 3, and this node runs it at most at 2; streams.version is at 2" in said
    assert "`penstock features downgrade --feature share.version=2 --feature streams.version=1`" in said
    assert "eligible" not in said


async def test_in_the_end_it_says_what_it_waited_for() -> None:
    times = LifecycleTimes(registration_timeout_ms=1)
    for code, words in (
        (ErrorCode.REQUEST_TIMED_OUT, "no active controller was found"),
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, "the last answer was DUPLICATE_BROKER_REGISTRATION"),
    ):
        world = World(*[refused(code)] * 100_000, times=times)
        with pytest.raises(KafkaError, match=words):
            await world.broker.register()
    with pytest.raises(KafkaError, match="the metadata did not come"):
        await World(REGISTERED, times=times).broker.register()


async def test_a_voter_stays_while_no_controller_is_active(caplog: pytest.LogCaptureFixture) -> None:
    times = LifecycleTimes(registration_timeout_ms=1, votes=True)
    none = [refused(ErrorCode.REQUEST_TIMED_OUT)] * 100_000
    world = World(*none, times=times)
    registering = asyncio.ensure_future(world.broker.register())
    await until(lambda: caplog.text.count("this node stays, for its vote is needed") > 2)
    assert "no active controller was found" in caplog.text
    world.answers.clear()
    world.answers += [REGISTERED] * 100_000
    world.commit(registration())
    await registering
    world.answers.clear()
    world.answers += [BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)] * 100_000
    letting_in = asyncio.ensure_future(world.broker.unfence())
    await until(lambda: "the controller did not let this broker in" in caplog.text)
    world.answers.clear()
    world.commit(UnfenceBrokerRecord(id=NODE, epoch=EPOCH))
    await letting_in


async def test_a_voter_ends_when_an_active_controller_refuses_it_for_long() -> None:
    duplicate = [refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)] * 100_000
    world = World(*duplicate, times=LifecycleTimes(registration_timeout_ms=1, votes=True))
    with pytest.raises(KafkaError, match="the last answer was DUPLICATE_BROKER_REGISTRATION"):
        await world.broker.register()


async def test_it_is_let_in_when_the_controller_and_the_image_say_so() -> None:
    fenced = BrokerHeartbeatResponse(is_fenced=True)
    world = World(REGISTERED, fenced, fenced)
    world.commit(registration())
    await world.broker.register()
    letting_in = asyncio.ensure_future(world.broker.unfence())
    await until(lambda: len(world.commands(BrokerHeartbeatRequest)) == 3)
    await asyncio.sleep(0)
    assert not letting_in.done(), "clients of this node would not see it yet"
    world.commit(UnfenceBrokerRecord(id=NODE, epoch=EPOCH))
    await letting_in
    assert {beat.broker_epoch for beat in world.commands(BrokerHeartbeatRequest)} == {EPOCH}
    await world.broker.leave()


async def test_it_goes_on_with_heartbeats_while_the_metadata_do_not_say_that_it_is_let_in() -> None:
    world = World(REGISTERED)
    world.commit(registration())
    await world.broker.register()
    letting_in = asyncio.ensure_future(world.broker.unfence())
    await until(lambda: len(world.commands(BrokerHeartbeatRequest)) == 3)
    assert not letting_in.done()
    world.commit(UnfenceBrokerRecord(id=NODE, epoch=EPOCH))
    await letting_in
    await world.broker.leave()


async def test_a_fault_in_one_heartbeat_is_not_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    world = World(REGISTERED, LET_IN, ArithmeticError("a fault"), LET_IN)
    await world.joined()
    await until(lambda: len(world.commands(BrokerHeartbeatRequest)) == 4)
    assert "a heartbeat failed" in caplog.text
    assert not world.ended
    await world.broker.leave()


async def test_heartbeats_tell_how_far_it_is_and_end_when_it_leaves() -> None:
    world = World(REGISTERED)
    await world.joined()
    world.commit(registration(OTHER, 11))
    await until(lambda: len(world.asked) > 5)
    assert world.asked[-1].current_metadata_offset == world.log.image.offset == 2
    await world.broker.leave(hand_over=False)
    asked = len(world.asked)
    await asyncio.sleep(0)
    assert len(world.asked) == asked


async def test_one_that_is_not_registered_any_more_registers_anew() -> None:
    gone = BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    world = World(REGISTERED, LET_IN, gone, BrokerRegistrationResponse(broker_epoch=20))
    await world.joined()
    await until(lambda: world.asked[-1] != world.asked[0] and world.lease.broker_epoch == 20)
    await until(lambda: isinstance(world.asked[-1], BrokerHeartbeatRequest))
    assert world.asked[-1].broker_epoch == 20
    assert world.commands(BrokerRegistrationRequest)[-1].previous_broker_epoch == EPOCH
    await world.broker.leave()


async def test_one_whose_id_another_process_took_ends() -> None:
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    world = World(REGISTERED, LET_IN, stale)
    await world.joined()
    await until(lambda: bool(world.ended))
    assert "another process has registered as broker 1" in str(world.ended[0])
    await world.broker.leave(hand_over=False)


async def test_a_newer_registration_of_its_own_is_no_other_process() -> None:
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    world = World(REGISTERED, LET_IN, stale)
    await world.joined()
    world.commit(registration(epoch=20))
    await until(lambda: world.lease.broker_epoch == 20)
    assert not world.ended
    await world.broker.leave(hand_over=False)


async def test_it_asks_to_go_until_it_may() -> None:
    world = World(REGISTERED)
    await world.joined()
    world.commit(registration(OTHER, 11))
    not_yet, yes = BrokerHeartbeatResponse(), BrokerHeartbeatResponse(should_shut_down=True)
    asked = len(world.asked)
    world.answers = [not_yet, not_yet, yes]
    await world.broker.leave()
    assert [beat.want_shut_down for beat in world.asked[asked:]] == [True] * 3


async def test_it_goes_although_no_controller_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_lifecycle, "LEAVE_ANSWER_MS", 1)
    world = World(REGISTERED)
    await world.joined()
    world.commit(registration(OTHER, 11))
    monkeypatch.setattr(world, "submit", lambda *_, **__: asyncio.get_running_loop().create_future())
    await world.broker.leave()
    assert "without handing over" in caplog.text


async def test_the_only_broker_has_nobody_to_hand_over_to() -> None:
    world = World(REGISTERED)
    await world.joined()
    await world.broker.leave()
    assert not any(beat.want_shut_down for beat in world.commands(BrokerHeartbeatRequest))


async def test_how_far_it_is_is_told_at_once_where_a_partition_that_it_has_gets_another_leader() -> None:
    world = World(REGISTERED, times=LifecycleTimes(heartbeat_interval_ms=60_000))
    await world.joined()
    world.commit(TopicRecord(name="t", topic_id=TOPIC_ID))
    for index, replicas in enumerate(([NODE, OTHER], [OTHER, 3])):
        world.commit(
            PartitionRecord(partition_id=index, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=OTHER)
        )
    world.asked.clear()
    world.commit(PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=3))
    world.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[OTHER]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.asked == []
    world.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    await until(lambda: bool(world.asked))
    assert world.asked[0].current_metadata_offset == world.log.image.offset
    await world.broker.leave(hand_over=False)


async def test_a_failed_directory_is_told_at_once_and_in_all_later_heartbeats() -> None:
    world = World(REGISTERED, times=LifecycleTimes(heartbeat_interval_ms=60_000))
    await world.joined()
    world.offline.append(UUID(int=200))
    world.asked.clear()
    world.broker.tell_of_directories()
    await until(lambda: bool(world.asked))
    assert world.asked[0].offline_log_dirs == [UUID(int=200)]
    assert world.ended == []
    await world.broker.leave(hand_over=False)


@pytest.mark.parametrize("turns", range(5))
async def test_it_leaves_in_whichever_turn_news_wake_the_heartbeats(turns: int) -> None:
    world = World(REGISTERED, times=LifecycleTimes(heartbeat_interval_ms=3_600_000))
    await world.joined()
    await asyncio.sleep(0)
    world.broker.tell_of_directories()
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving = asyncio.create_task(world.broker.leave(hand_over=False))
    for _ in range(20):
        await asyncio.sleep(0)
    assert leaving.done()


async def test_a_broker_that_cannot_tell_of_a_failed_directory_ends() -> None:
    world = World(REGISTERED, times=LifecycleTimes(heartbeat_interval_ms=1, directory_failure_timeout_ms=0))
    await world.joined()
    world.answers += [BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)] * 1000
    world.broker.tell_of_directories()
    await until(lambda: bool(world.ended))
    assert world.ended[0].code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_who_slept_through_its_session_is_let_in_by_an_answer_to_what_it_asked_since() -> None:
    world = World(REGISTERED)
    await world.joined()
    fenced = BrokerHeartbeatResponse(is_fenced=True)
    world.answers = [refused_heartbeat(), refused_heartbeat()] * 3
    for _ in range(5):
        world.clock_s += 8
        beats = len(world.commands(BrokerHeartbeatRequest))
        await until(lambda beats=beats: len(world.commands(BrokerHeartbeatRequest)) > beats)  # type: ignore[misc]
        assert not world.lease.is_over, "no controller answers, but it was awake"
    world.answers = [fenced] * 20
    world.clock_s += 10
    assert world.lease.is_over
    await until(lambda: len(world.answers) < 18)
    assert world.lease.is_over
    world.answers = []
    await until(lambda: not world.lease.is_over)
    await world.broker.leave(hand_over=False)


async def test_a_heartbeat_without_an_answer_is_given_up_in_time_to_show_that_the_broker_is_awake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The quorum is gone: nobody else can lead, so this broker goes on."""
    world, given_s = World(REGISTERED), []
    await world.joined()

    def unanswered(command: Message, answer_class: type[Message], *, deadline_s: float) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        given_s.append(deadline_s - loop.time())
        world.clock_s += given_s[-1]
        reply: asyncio.Future[Any] = loop.create_future()
        reply.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        return reply

    monkeypatch.setattr(world, "submit", unanswered)
    await until(lambda: len(given_s) > 5)
    assert world.clock_s > 2 * world.lease.length_s
    assert not world.lease.is_over
    await world.broker.leave(hand_over=False)


def refused_heartbeat() -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=ErrorCode.NETWORK_EXCEPTION)


async def test_the_log_says_once_when_the_lease_is_over_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    world = World(REGISTERED)
    await world.joined()
    fenced = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True)
    world.answers += [fenced, fenced, fenced]
    await until(lambda: "leads again" in caplog.text)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the lease of this broker is over",
        "the controller has renewed the lease of this broker",
    ]
    await world.broker.leave()
