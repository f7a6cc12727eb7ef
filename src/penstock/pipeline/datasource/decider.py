"""The driver's part: takes the steps of `deciding` at a cluster."""

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from penstock.client.blocking import BlockingCluster
from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.blocking.transactions import NOT_ITS_OWN, TransactionCoordinators
from penstock.client.values import TransactionName
from penstock.pipeline.datasource.decisions_topic import DECIDING_TIMEOUT_MS, DecisionsTopic
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.deciding import (
    AbortedError,
    End,
    Fence,
    ListOpen,
    Look,
    LostError,
    OutrunError,
    Step,
    Write,
    deciding,
    giving_up,
)
from penstock.pipeline.once.decision import Decision
from penstock.pipeline.once.names import decider_of, ids_of
from penstock.protocol.errors import KafkaError

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

    def decide(self, batch: int, prepared: Collection[TransactionName]) -> Decision:
        """Once for each batch of the query: commits what is decided. PipelineError where the batch has to run again, or
        cannot be carried out any more.
        """
        steps, answer = deciding(batch, prepared), None
        try:
            while True:
                answer = self._take(steps.send(answer))
        except StopIteration as end:
            decision: Decision = end.value
            return decision
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
        except LostError as error:
            raise PipelineError(f"Query {self._query}: {error}: {advice_on(error)}") from error

    def forget(self) -> None:
        """What was decided last is carried out, and nobody will ask for it."""
        DecisionsTopic(self._cluster, self._topic_name, self._query).forget()

    def give_up(self, batch: int, prepared: Collection[TransactionName]) -> None:
        """The attempt has failed. What may have been decided all the same is left for who comes next."""
        steps, answer = giving_up(batch, prepared), None
        with suppress(StopIteration, OutrunError):
            while True:
                answer = self._take(steps.send(answer))

    def _take(self, step: Step) -> Any:
        if isinstance(step, Fence):
            self._identity = self._coordinators.begin(decider_of(self._query), DECIDING_TIMEOUT_MS)
            self._topic = self._topic or DecisionsTopic(self._cluster, self._topic_name, self._query)
            return None
        if isinstance(step, End):
            return self._end(step.transaction, commits=step.commits)
        if isinstance(step, ListOpen):
            return self._coordinators.open_ones(ids_of(self._query))
        assert self._topic is not None, "the first step is Fence"
        if isinstance(step, Look):
            return self._topic.last()
        return self._write(self._topic, step)

    def _write(self, topic: DecisionsTopic, step: Write) -> None:
        identity = self._identity
        assert identity is not None
        assert identity.transactional_id is not None
        try:
            topic.write(identity, step.decision)
            name = TransactionName(identity.transactional_id, identity.producer_id, identity.epoch)
            is_written = self._coordinators.end(name, commits=True)
        except KafkaError as error:
            if error.code not in NOT_ITS_OWN:
                raise
            is_written = False
        if not is_written:
            raise OutrunError("another process decides at the same time")

    def _end(self, transaction: TransactionName, *, commits: bool) -> bool | None:
        is_done = self._coordinators.end(transaction, commits=commits)
        if not commits and is_done:
            logger.info("query %s: what an attempt has left is aborted: %s", self._query, transaction)
        return is_done
