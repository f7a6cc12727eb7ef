"""Hosts the machines of one internal topic: one machine for each partition of it that this node leads.

A key (the name of a group, say) belongs to the leader of one partition, found by its hash. The topic is created when a
key is first asked for; until then, and while a partition is being read, clients are told to come back. A request whose
refusal a client would not hide from its user waits for the load instead (`loaded`), for a bounded time.

| what is asked for | answer |
| --- | --- |
| a key while the topic does not exist, or its partition has no leader | COORDINATOR_NOT_AVAILABLE |
| a key of a partition that another node leads, or may lead as the lease is over, or is to lead | NOT_COORDINATOR |
| a key of a partition that is being read | COORDINATOR_LOAD_IN_PROGRESS |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Generic

from penstock.metadata.brokers import Endpoint
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from penstock.metadata.topics import TopicImage
from penstock.node.coordinators.errands import Errands
from penstock.node.coordinators.hosted import Hosted, MachineT
from penstock.node.environment.alarm import Turns
from penstock.node.environment.event_loop import steady_clock
from penstock.node.environment.tasks import Tasks, all_ended
from penstock.node.metrics.distribution import Durations
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.node.coordinators.departure import Departure

logger = logging.getLogger(__name__)

LOAD_RETRY_S: Final = 1.0
KEYS_OF_ONE_PARTITION: Final = 100


class HostContext(Value):
    node_id: int
    image: ClusterImage
    partitions: PartitionTable
    hold_missing: Callable[[TopicImage, int], Partition | None]
    """Tries again to make the log of a partition; None if it is not this node's. Raises KafkaError."""
    create_topic: Callable[[str], Awaitable[None]]
    """Has an internal topic created; the caller asks again until it is there."""
    now_ms: Callable[[], int]
    errands: Errands
    may_lead: Callable[[Partition], bool] = lambda _: True
    """Whether no other node can lead a partition that is led here."""


class CoordinatorHost(Generic[MachineT]):
    key_type: ClassVar[int]
    """As FindCoordinator counts the types."""

    def __init__(
        self,
        topic: str,
        context: HostContext,
        new_machine: Callable[[int], MachineT],
        compression: Compression,
        patience_ms: int,
    ) -> None:
        """`new_machine` takes the leader epoch; `patience_ms`: how long a request may wait for a load."""
        self.topic_name = topic
        self.context = context
        self._new_machine = new_machine
        self._compression = compression
        self._patience_s = patience_ms / 1000
        self._led: dict[int, Hosted[MachineT]] = {}
        self._loads: dict[Hosted[MachineT], asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        """Set when a partition begins to be led here, or is read."""
        self._reading = asyncio.Lock()
        self._is_running = False
        self._tasks = Tasks()
        self._creating: asyncio.Task[None] | None = None
        self.departures: dict[int, Departure] = {}
        """By their partitions, machines that go to another node, or went there lately."""
        self._steady_ms = context.now_ms
        self._turns = Turns(self.now_ms)
        self.load_time = Durations()

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._is_running = True
        self._steady_ms = steady_clock(self.context.now_ms)
        self.follow()

    def on_metadata(self, records: Sequence[MetadataRecord]) -> None:
        topic_id = None if self.topic is None else self.topic.topic_id
        if any(
            isinstance(record, RemoveTopicRecord)
            or (isinstance(record, PartitionRecord | PartitionChangeRecord) and record.topic_id == topic_id)
            for record in records
        ):
            self.follow()

    def on_new_image(self) -> None:
        self.follow()

    async def stop(self) -> None:
        self._is_running = False
        tasks = list(self._loads.values())
        for index in list(self._led):
            self._resign(index)
        if self._creating is not None:
            self._creating.cancel()
            tasks.append(self._creating)
        await all_ended(tasks)

    def now_ms(self) -> int:
        """The wall clock as it was at the start, going on steadily: a change of the wall clock expires no session."""
        return self._steady_ms()

    # -- who coordinates ----------------------------------------------------------------------------------------------

    @property
    def topic(self) -> TopicImage | None:
        topic: TopicImage | None = self.context.image.topics.get(self.topic_name)
        return topic

    def partition_of(self, key: str) -> int:
        """KafkaError(COORDINATOR_NOT_AVAILABLE) before the topic is there."""
        return coordinator_partition(key, len(self._needed_topic().partitions))

    def find(self, key: str) -> Hosted[MachineT]:
        """The machine of a key that this node coordinates; KafkaError as the table above says."""
        topic = self._needed_topic()
        index = coordinator_partition(key, len(topic.partitions))
        hosted = None
        if topic.partitions[index].leader == self.context.node_id:  # the partition may not have followed yet
            hosted = self._led.get(index) or self._lead_late(topic, index)
        if hosted is None or hosted.is_paused or not self.context.may_lead(hosted.partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not hosted.is_serving:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return hosted

    def is_loading_for(self, key: str) -> bool:
        """Whether `find` refuses a key because something is being read."""
        return self._load_of(key) is not None

    async def loaded(self, keys: Iterable[str]) -> None:
        """Wait until nothing is being read that these keys need; `find` has the last word if it takes too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience_s
        for key in keys:
            while (load := self._load_of(key)) is not None and (left := end - loop.time()) > 0:
                await asyncio.wait([load], timeout=left)

    async def taken_over(self, index: int, leader_epoch: int) -> bool:
        """Whether in time, in that epoch or a later one. Other brokers may hear of it before this one."""
        try:
            async with asyncio.timeout(self._patience_s):
                while (
                    (hosted := self._led.get(index)) is None
                    or hosted.leader_epoch < leader_epoch
                    or hosted in self._loads
                ):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return hosted.is_serving

    def _load_of(self, key: str) -> asyncio.Task[None] | None:
        topic = self.topic
        if not self._loads or topic is None or not topic.partitions:
            return None
        hosted = self._led.get(coordinator_partition(key, len(topic.partitions)))
        return None if hosted is None else self._loads.get(hosted)

    def coordinator(self, key: str, listener: str) -> tuple[int, Endpoint]:
        """Node id and address of the coordinator; KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        topic = self._needed_topic()
        index = coordinator_partition(key, len(topic.partitions))
        leader = topic.partitions[index].leader
        broker = self.context.image.brokers.get(leader)
        endpoint: Endpoint | None = None if broker is None or broker.fenced else broker.endpoint(listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader, endpoint

    def hosted(self, index: int) -> Hosted[MachineT] | None:
        return self._led.get(index)

    @property
    def is_loading(self) -> bool:
        """Whether some partition that this node leads does not serve yet."""
        return bool(self._loads)

    def led(self) -> list[Hosted[MachineT]]:
        """Those that are being read, too."""
        return list(self._led.values())

    def serving(self) -> list[Hosted[MachineT]]:
        return [hosted for hosted in self._led.values() if hosted.is_serving]

    def all_serving(self) -> list[Hosted[MachineT]]:
        """Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while a partition is being read."""
        serving = self.serving()
        if len(serving) < len(self._led):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return serving

    # -- handing over -------------------------------------------------------------------------------------------------

    async def before_departure(self, partition: Partition) -> None: ...

    def departure_from(self, partition: Partition, connect: Callable[[], Awaitable[Connection]]) -> Departure:
        """The machine goes with all that waits in it. Raises KafkaError where it cannot go, as it is being read."""
        hosted = self.hosted(partition.index)
        if hosted is None or not hosted.is_serving:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{partition} is not served yet")
        from penstock.node.coordinators.departure import Departure  # a single node starts without what clients need

        departure = Departure(hosted, self.key_type, connect, self.departures)
        self.departures[partition.index] = departure
        return departure

    def departure_of(self, keys: Sequence[str]) -> Departure | None:
        """Where these keys are about to go, or went lately; None if they stay, or lie in several partitions, as very
        many do where there are several.
        """
        topic = self.topic
        if topic is None or not topic.partitions:
            return None
        some = keys[:1] if len(topic.partitions) == 1 else keys
        if len(some) > KEYS_OF_ONE_PARTITION:
            return None
        indexes = {coordinator_partition(key, len(topic.partitions)) for key in some}
        return self.departures.get(indexes.pop()) if len(indexes) == 1 else None

    # -- the topic ----------------------------------------------------------------------------------------------------

    def _needed_topic(self) -> TopicImage:
        topic = self.topic
        if topic is None or not topic.partitions:
            if self._creating is None and self._is_running:
                self._creating = self._tasks.start(self._create_topic(), f"create {self.topic_name}")
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return topic

    async def _create_topic(self) -> None:
        try:
            await self.context.create_topic(self.topic_name)
        except KafkaError as error:
            logger.warning("could not create %s: %s", self.topic_name, error)
        finally:
            self._creating = None

    # -- leading ------------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Lead what the metadata says and the partition table has, and nothing else."""
        if not self._is_running:
            return
        for index, hosted in list(self._led.items()):
            if hosted.is_over or self.context.partitions.get(self.topic_name, index) is not hosted.partition:
                self._resign(index)
        topic = self.topic
        for index in topic.partitions if topic is not None else ():
            partition = self.context.partitions.get(self.topic_name, index)
            if partition is not None and partition.leader is not None and index not in self._led:
                self._begin(partition)

    def _lead_late(self, topic: TopicImage, index: int) -> Hosted[MachineT] | None:
        """Lead a partition whose log could not be made when its topic was, say because the disk was full."""
        if self.context.partitions.get(self.topic_name, index) is None:
            try:
                self.context.hold_missing(topic, index)
            except KafkaError as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
            self.follow()
        return self._led.get(index)

    def _begin(self, partition: Partition) -> None:
        hosted = Hosted(
            partition, self._new_machine(partition.leader_epoch), self._turns, self._compression, self.context.errands
        )
        self._led[partition.index] = hosted
        self._news.set()
        self._loads[hosted] = self._tasks.start(self._load(hosted), f"load {partition}")

    def _resign(self, index: int) -> None:
        hosted = self._led.pop(index, None)
        if hosted is not None:
            hosted.resign()
            load = self._loads.pop(hosted, None)
            if load is not None:
                load.cancel()

    async def _load(self, hosted: Hosted[MachineT]) -> None:
        """Read one partition, when it is its turn, and serve it; again until that succeeds."""
        try:
            async with self._reading:
                began_s = asyncio.get_running_loop().time()
                await hosted.read()
                self.load_time.took(asyncio.get_running_loop().time() - began_s)
            await hosted.take_over()
        except Exception as error:
            defect = None if isinstance(error, KafkaError) else error  # A disk has errors without our doing.
            logger.error("could not load %s: %s; another try follows", hosted.partition, error, exc_info=defect)
            await asyncio.sleep(LOAD_RETRY_S)
            self._loads.pop(hosted, None)
            self._resign(hosted.partition.index)  # What was read may be half of the truth.
            self.follow()
        else:
            self._loads.pop(hosted, None)
            self._news.set()
            if hosted.is_serving:
                self.begins_to_serve(hosted)

    def begins_to_serve(self, hosted: Hosted[MachineT]) -> None:
        """Its load is over."""
