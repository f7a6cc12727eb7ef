"""What the author of a connector writes: a connector, which cuts the work into tasks, and the task that does it.

A connector of either kind is made without arguments and lives like this:

    start(config) → task_configs(max_tasks) → … → stop()

and each task, which is made without arguments as well:

    source    start(config, context) → poll() … commit() … → stop()
    sink      start(config, context) → open(partitions) → put(records) … flush(offsets) … → close(partitions) → stop()

Each method is an ordinary function, which is called in a thread of the task's own and may block, or a coroutine
function, which runs on the worker's event loop and must not. What it raises fails the task; RetriableError in `put` and
`poll` asks for the same again a little later. Records and values are plain Python: a value is None, a bool, an int, a
float, a str, bytes, a list or a dict. A schema, where there is one, is a dict as in Connect's JSON.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.value import Value, fresh
from penstock.work.connect.config import ConfigKey
from penstock.work.connect.metrics import Metric

Shared = TypeVar("Shared")
Headers = tuple[tuple[str, Any], ...]
Position = Mapping[str, Any]
"""What a source calls its partitions and its offsets: any JSON object."""
Changes = Sequence[tuple[Position, Position | None]]
"""New offsets of a source's partitions; None forgets one."""
Safe = Mapping[TopicPartition, OffsetAndMetadata]
"""Positions before which a sink has everything; partitions that it does not name are not committed."""


class RetriableError(Exception):
    """Try the same again a little later."""


class Record(Value):
    """What transforms work on; `partition` None lets the producer choose."""

    topic: str
    partition: int | None = None
    key: Any = None
    value: Any = None
    key_schema: Mapping[str, Any] | None = None
    value_schema: Mapping[str, Any] | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class SourceRecord(Record):
    """Where in the source it was read: after a restart the task goes on behind that."""

    source_partition: Position = fresh(dict)
    source_offset: Position = fresh(dict)


class SinkRecord(Record):
    """A record of a topic. Transforms may have changed `topic`; where it lay is its `original` (KIP-793)."""

    offset: int = -1
    original_topic: str | None = None
    original_partition: int | None = None
    consumed: ConsumedRecord | None = None
    """As it lay in its topic: so it goes to the dead letter queue, whenever the sink reports it."""

    @property
    def original(self) -> TopicPartition:
        partition = self.partition if self.original_partition is None else self.original_partition
        return TopicPartition(self.original_topic or self.topic, partition or 0)

    @property
    def place(self) -> tuple[TopicPartition, int]:
        return self.original, self.offset


class TransactionContext:
    """Where a source ends its transactions itself (`transaction.boundary=connector`): asked for in `poll`, done when
    the records that it returns are on their way. A source whose records are aborted goes on behind them.
    """

    def __init__(self) -> None:
        self.ends_batch: bool | None = None
        """Whether the transaction ends with all records of this poll: True commits it, False aborts it."""
        self._ends: dict[int, tuple[SourceRecord, bool]] = {}

    def commit(self, record: SourceRecord | None = None) -> None:
        """Behind this record; behind the last one that is returned, if none is named."""
        self._end(record, True)

    def abort(self, record: SourceRecord | None = None) -> None:
        self._end(record, False)

    def _end(self, record: SourceRecord | None, commits: bool) -> None:
        if record is None:
            self.ends_batch = commits
        else:
            self._ends[id(record)] = record, commits

    def ends_at(self, record: SourceRecord) -> bool | None:
        """What was asked for behind this very record."""
        found = self._ends.get(id(record))
        return None if found is None else found[1]

    def take_batch(self) -> bool | None:
        """The same at the end of a batch. Records that were not in it are forgotten."""
        ends, self.ends_batch = self.ends_batch, None
        self._ends.clear()
        return ends


class WorkerContext:
    """The worker that runs a task: its configuration, and what its tasks have in common."""

    def __init__(self, config: Mapping[str, str] = MappingProxyType({})) -> None:
        self.config = config
        self._shared: dict[Callable[..., Any], Any] = {}

    def shared(self, kind: Callable[["WorkerContext"], Shared]) -> Shared:
        """The one of this kind, which is made when the first task asks for it."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        found: Shared = self._shared[kind]
        return found


class SourceContext:
    def __init__(
        self,
        stored: Callable[[Position], Position | None],
        owned_until_s: Callable[[], float] = lambda: math.inf,
        now_s: Callable[[], float] = time.monotonic,
        failures: Sequence[str] = (),
        failed_runs: int = 0,
        transactions: TransactionContext | None = None,
        worker: WorkerContext | None = None,
        all_stored: Callable[[], Sequence[tuple[Position, Position]]] = tuple,
        store: Callable[[Changes], Awaitable[None]] | None = None,
        generation: int = 0,
    ) -> None:
        self._stored, self._all_stored, self._store = stored, all_stored, store
        self.worker = worker or WorkerContext()
        self.generation = generation
        """Of the group of workers, as this one knew it when the task began; 0 for a worker that stands alone."""
        self.transactions = transactions
        """None unless the source says itself where its transactions end."""
        self.owned_until_s = owned_until_s
        """Until when the task is this worker's, by `now_s`, as far as is known at the moment. Then another worker may
        have it: what the task has outside of the worker's process must have ended.
        """
        self.now_s = now_s
        """A clock that always goes on, time.monotonic() unless the worker lives in a simulation."""
        self.failures = failures
        """What ended the last runs of this task on this worker, the newest at the end."""
        self.failed_runs = failed_runs
        """How many there were."""

    def offset(self, partition: Position) -> Position | None:
        """How far this partition of the source has been read; None if it never was."""
        return self._stored(partition)

    def offsets(self) -> Sequence[tuple[Position, Position]]:
        """What is stored of all partitions of the connector, those of its other tasks included."""
        return self._all_stored()

    async def store(self, offsets: Changes) -> None:
        """What the next one to have the task must know, beside the offsets of records, before anything is begun. It is
        stored when this returns; FencedError where the task is not this worker's any more. A worker that stands still
        in this call may store it much later: what another one must not lose is a partition of its own.
        """
        if self._store is not None:
            await self._store(offsets)


class SinkContext:
    def __init__(self, *, tolerates: bool = True) -> None:
        """`tolerates`: `errors.tolerance=all`."""
        self.tolerates = tolerates
        self.wanted: dict[TopicPartition, int] = {}
        self.is_flush_wanted = False
        self.pause_ms: int | None = None
        self.assignment: tuple[TopicPartition, ...] = ()
        self.outgoing: list[Record] = []
        self.reported: list[tuple[SinkRecord, Exception]] = []

    def report(self, record: SinkRecord, error: Exception) -> None:
        """The sink cannot take this record (KIP-610): it is left out where that is tolerated, else this raises the
        error, which is to end the call before anything is written. It may have come with an earlier call, as long as no
        `flush` has allowed to commit it; what a flush waits for may be reported in any thread.
        """
        if not self.tolerates:
            raise error
        self.reported.append((record, error))

    def send(self, record: Record) -> None:
        """Write a record to a topic after the call that is under way; a flush waits until it is there."""
        self.outgoing.append(record)

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Give this partition from this offset on, after the call that is under way."""
        self.wanted[partition] = offset

    def take_back(self, records: Sequence[SinkRecord]) -> None:
        """The call will be repeated with these records, and with it what it has reported of them and sent. What was
        reported of earlier ones stays. A thread of the sink's may report more meanwhile.
        """
        places = {one.place for one in records}
        for number in reversed(range(len(self.reported))):
            if self.reported[number][0].place in places:
                del self.reported[number]
        self.outgoing.clear()

    def timeout(self, pause_ms: int) -> None:
        """How long to wait before the call under way is tried again if it raises a RetriableError."""
        self.pause_ms = pause_ms

    def request_commit(self) -> None:
        """Commit after the call that is under way instead of at the next interval."""
        self.is_flush_wanted = True


class Task(ABC):
    @abstractmethod
    def stop(self) -> Awaitable[None] | None: ...

    def report(self) -> Mapping[str, Any]:
        """What the task tells people, as JSON; called on the worker's event loop at any time."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """Its figures for the worker's page of metrics, called like `report`."""
        return ()


class SourceTask(Task):
    @abstractmethod
    def start(self, config: Mapping[str, str], context: SourceContext) -> Awaitable[None] | None:
        """Open the source, and go on where it was left."""

    @abstractmethod
    def poll(self) -> Awaitable[Sequence[SourceRecord] | None] | Sequence[SourceRecord] | None:
        """The next records; None or nothing if there are none at the moment. It may wait for some, but not for long.

        Only what it returns counts: a task that raises moves on behind nothing that it has read in this call.
        """

    def commit(self) -> Awaitable[None] | None:
        """All records so far are in Kafka, and so are their offsets."""
        return None


class SinkTask(Task):
    @abstractmethod
    def start(self, config: Mapping[str, str], context: SinkContext) -> Awaitable[None] | None: ...

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> Awaitable[None] | None:
        """The records need not be safe when it returns."""

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Awaitable[Safe | None] | Safe | None:
        """Make safe what was put so far: these positions are committed next, or those that it returns (`preCommit`).

        They are before what a `put` has brought that raised a RetriableError and does not come again here.
        """
        return None

    def open(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Records of these partitions come from now on."""
        return None

    def close(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """No more records of these partitions; what was put is flushed."""
        return None


class Connector(ABC):
    config_keys: ClassVar[Sequence[ConfigKey]] = ()
    """The configuration that it understands beside what all connectors do."""
    secret_prefixes: ClassVar[Sequence[str]] = ()
    """Of keys that are for something else to understand, and may be its passwords: their values are shown to nobody."""
    secret_pattern: ClassVar[str] = ""
    """Of further keys for which that is so: a regular expression that is found in them."""
    task_class: ClassVar[type[Task]]

    def start(self, config: Mapping[str, str]) -> Awaitable[None] | None:
        """The configuration has been found good by `config_keys`; look whether it works."""
        self.config = dict(config)
        return None

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """A configuration for each task, at most `max_tasks` of them. By default one task does everything."""
        return [dict(self.config)]

    def stop(self) -> Awaitable[None] | None:
        return None


class Support(Enum):
    SUPPORTED = auto()
    UNSUPPORTED = auto()


class SourceConnector(Connector):
    task_class: ClassVar[type[SourceTask]]

    def exactly_once_support(self, config: Mapping[str, str]) -> Support | None:
        """Whether with this configuration each record comes once, if records and offsets are stored together; None if
        nobody has thought of it. The connector has not been started.
        """
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> Support:
        """Whether its tasks use `context.transactions`."""
        return Support.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Changes) -> Awaitable[None] | None:
        """A request changes these offsets of the connector, which is stopped; ValueError if they cannot be (KIP-875).

        The connector has not been started.
        """
        return None

    def deleted(self, config: Mapping[str, str], context: SourceContext) -> Awaitable[None] | None:
        """The connector is no more, and none of its tasks runs: what they may have left elsewhere can be ended.

        Called by the worker that leads, which may end at any moment. The connector has not been started.
        """
        return None


class SinkConnector(Connector):
    task_class: ClassVar[type[SinkTask]]

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> Awaitable[None] | None:
        """The same, of its partitions; None forgets one."""
        return None
