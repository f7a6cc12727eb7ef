"""The driver's part: takes the steps of `deciding` at a cluster.

Each process that comes to `Fence` raises the epoch of the query's decider by one. So a process whose epoch is the next
one after that of its last decision knows that nobody has decided since, and looks up nothing.
"""

import logging
import math
import os
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from penstock.client.blocking import BlockingCluster, ClusterSettings, TopicPartition, now_ms
from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.blocking.transactions import NOT_ITS_OWN, TransactionCoordinators
from penstock.client.values import TransactionName
from penstock.pipeline.datasource.decisions_topic import DECIDING_TIMEOUT_MS, DecisionsTopic
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.deciding import (
    AbortedError,
    End,
    Fence,
    FencedError,
    LateError,
    ListOpen,
    Look,
    LostError,
    OutrunError,
    Step,
    Write,
    deciding,
    giving_up,
    settling,
)
from penstock.pipeline.once.decision import Decision
from penstock.pipeline.once.names import decider_of, ids_of
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

WRITE_AGAIN: Final = (
    "A stream or pipeline runs once with penstock.sink.delivery=at-least-once, until this batch is over; a function "
    "that has write_once writes this batch once with batch.write.format('penstock'), and a batch write takes another "
    "penstock.sink.id."
)
KEEPS_NOTHING: Final = (
    "This cluster does not keep what is prepared. A longer kafka.transaction.timeout.ms (brokers allow "
    "transaction.max.timeout.ms) gives a driver more time to come back; Penstock with "
    "transaction.two.phase.commit.enable=true on all brokers keeps it until it is decided about."
)

MOST_QUERIES: Final = 100
"""Whose last decisions a process remembers."""


class Decided(Value):
    """By this process, as this producer; and where decisions about the query are kept."""

    producer_id: int
    epoch: int
    decision: Decision
    partition: TopicPartition


_decided: OrderedDict[tuple[int, ClusterSettings, str, str], Decided] = OrderedDict()
"""By process, cluster, topic and query."""


def advice_on(lost: LostError) -> str:
    """What has happened to the rows, what to do now, and that it does not come again."""
    if lost.transaction.is_kept:
        return (
            f"somebody has ended it by hand, and a part of the batch is not there. {WRITE_AGAIN} A part of it is there "
            "twice then."
        )
    if lost.is_forgotten:
        return (
            "the driver was away for longer than the cluster remembers its ids (transactional.id.expiration.ms). Look "
            "with isolation.level=read_committed whether the rows of the batch are there. If they are, the checkpoint "
            "may go on behind it: begin with a new one, from the offsets where the batch ends. If they are not, write "
            f"it again. {WRITE_AGAIN} {KEEPS_NOTHING}"
        )
    return (
        "more than kafka.transaction.timeout.ms went by before the decision was carried out, or somebody has ended it, "
        f"and a part of the batch is not there. {WRITE_AGAIN} A part of it is there twice then. {KEEPS_NOTHING}"
    )


class Decider:
    def __init__(self, cluster: BlockingCluster, topic: str, query: str) -> None:
        """`topic` is where decisions are kept."""
        self._cluster, self._topic_name, self._query = cluster, topic, query
        self._coordinators = TransactionCoordinators(cluster)
        self._topic: DecisionsTopic | None = None
        self._identity: ProducerIdentity | None = None
        self._prepared: Collection[TransactionName] = ()
        self._until_ms = math.inf
        self._is_over = False
        self._last: Decision | None = None
        """What nobody has decided behind since, when this process has come to `Fence`."""

    def decide(self, batch: int, prepared: Collection[TransactionName], until_ms: float = math.inf) -> Decision:
        """Once for each batch of the query: commits what is decided. After `until_ms`, by `now_ms`, nothing is decided
        any more. PipelineError where the batch has to run again, or cannot be carried out any more.
        """
        self._prepared, self._until_ms = prepared, until_ms
        steps, answer = deciding(batch, prepared), None
        try:
            while True:
                answer = self._take(steps.send(answer))
        except StopIteration as end:
            decision: Decision = end.value
            self._remember(decision)
            return decision
        except FencedError as error:
            raise PipelineError(
                f"Query {self._query}: {error}. The batch runs again, and nothing is lost: mostly it was the end of a "
                "run that was stopped just before. If it fails so each time, two runs have the same checkpoint: end "
                "one of them."
            ) from error
        except OutrunError as error:
            raise PipelineError(
                f"Query {self._query}: {error}. Two runs have the same checkpoint, or it was set back: then begin "
                "with a new one."
            ) from error
        except AbortedError as error:
            raise PipelineError(
                f"Query {self._query}: {error}. Its tasks took longer than the cluster keeps transactions open "
                "(kafka.transaction.timeout.ms), or someone has ended it. The batch runs again."
            ) from error
        except LateError as error:
            raise PipelineError(
                f"Query {self._query}: {error}: it took nearly as long as the cluster keeps transactions open. The "
                "batch runs again, and nothing is lost. If it fails so each time, give it more time "
                "(kafka.transaction.timeout.ms; brokers allow transaction.max.timeout.ms) or fewer rows at a time."
            ) from error
        except LostError as error:
            raise PipelineError(f"Query {self._query}: {error}: {advice_on(error)}") from error

    def forget(self) -> None:
        """What was decided last is carried out, and nobody will ask for it."""
        _decided.pop(self._place, None)
        DecisionsTopic(self._cluster, self._topic_name, self._query).forget()

    def give_up(self, batch: int, prepared: Collection[TransactionName]) -> None:
        """The attempt has failed. What may have been decided all the same is left for who comes next."""
        steps, answer = giving_up(batch, prepared), None
        with suppress(StopIteration, OutrunError):
            while True:
                answer = self._take(steps.send(answer))

    def settle(self) -> bool:
        """A run of the query is over: nothing of it stays open. False where another one has begun, which does it."""
        self._is_over = True
        steps, answer = settling(), None
        with suppress(OutrunError):
            try:
                while True:
                    answer = self._take(steps.send(answer))
            except StopIteration:
                return True
        return False

    def _take(self, step: Step) -> Any:
        if isinstance(step, Fence):
            self._fence()
            return None
        if isinstance(step, End):
            return self._end(step.transaction, commits=step.commits)
        if isinstance(step, ListOpen):
            ids = ids_of(self._query)
            if self._is_over:
                return self._coordinators.all_open(ids)
            return self._coordinators.open_ones(ids, self._prepared)
        assert self._topic is not None, "the first step is Fence"
        if isinstance(step, Look):
            last, self._last = self._last, None
            return last or self._topic.last()
        return self._write(self._topic, step)

    def _fence(self) -> None:
        identity = self._identity = self._coordinators.begin(decider_of(self._query), DECIDING_TIMEOUT_MS)
        decided = _decided.pop(self._place, None)
        if decided is not None and (identity.producer_id, identity.epoch) == (decided.producer_id, decided.epoch + 1):
            self._last = decided.decision
            self._topic = DecisionsTopic(self._cluster, self._topic_name, self._query, decided.partition)
        else:
            self._topic = self._topic or DecisionsTopic(self._cluster, self._topic_name, self._query)

    @property
    def _place(self) -> tuple[int, ClusterSettings, str, str]:
        return os.getpid(), self._cluster.settings, self._topic_name, self._query

    def _remember(self, decision: Decision) -> None:
        assert self._identity is not None
        assert self._topic is not None
        identity, partition = self._identity, self._topic.partition
        _decided[self._place] = Decided(identity.producer_id, identity.epoch, decision, partition)
        if len(_decided) > MOST_QUERIES:
            _decided.popitem(last=False)

    def _write(self, topic: DecisionsTopic, step: Write) -> bool:
        """Whether there was time: the decision counts from the end of the decider's transaction on."""
        identity = self._identity
        assert identity is not None
        assert identity.transactional_id is not None
        try:
            topic.write(identity, step.decision)
            is_in_time = now_ms() < self._until_ms
            name = TransactionName(identity.transactional_id, identity.producer_id, identity.epoch)
            is_ended = self._coordinators.end(name, commits=is_in_time, limit_ms=DECIDING_TIMEOUT_MS)
        except KafkaError as error:
            if error.code not in NOT_ITS_OWN:
                raise
            is_ended = False
        if not is_ended:
            raise FencedError(
                f"batch {step.decision.batch} is not decided: another process has begun to decide, or the cluster took "
                f"longer than {DECIDING_TIMEOUT_MS // 1_000} s"
            )
        return is_in_time

    def _end(self, transaction: TransactionName, *, commits: bool) -> bool | None:
        is_done = self._coordinators.end(transaction, commits=commits)
        if not commits and is_done:
            logger.info("query %s: what an attempt has left is aborted: %s", self._query, transaction)
        return is_done
