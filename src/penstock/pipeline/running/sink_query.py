"""A sink's query in a process that has several: one that fails is begun again, and the others go on meanwhile.

active --ends--> done
   |  ^
fails begin, after 1, 2, 4 … 60 s; a batch that succeeds sets the pause back
   v  |
failing
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import is_here, local_files_written_quickly, pool_of
from penstock.pipeline.running.topic_sinks import settle_run
from penstock.pipeline.spec.pipeline import SinkSpec

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
SETTLES_WITHIN_S: Final = 3.0
"""Where a run is told to stop."""
TASKS_END_WITHIN_S, LOOK_EVERY_S = 10.0, 0.1


class SinkQuery:
    def __init__(
        self,
        session: SparkSession,
        name: str,
        sink: SinkSpec,
        writer: DataStreamWriter,
        checkpoint: str,
        *,
        ends: bool = True,
    ) -> None:
        """`ends`: when it has done what there is."""
        self.name, self._ends = name, ends
        self._sink = sink
        self.query: StreamingQuery | None = None
        self._session, self._writer = session, writer
        self._checkpoint = checkpoint
        self._failure: Exception | None = None
        self._pause_s = FIRST_PAUSE_S
        self._begin_at_s = 0.0

    def begin(self) -> None:
        places = [self._checkpoint, self._sink.option("path") or self._checkpoint]
        with pool_of(self._session, self.name), local_files_written_quickly(self._session, places):
            self.query = self._writer.start()
        self._failure = None

    def settle(self) -> None:
        """It has ended, and perhaps for good: tasks of its last attempts may have left something open."""
        if self._sink.is_exactly_once and self.query is not None:
            settle_run(self._sink, str(self.query.id))

    def stop(self) -> None:
        """At once. A server of Spark Connect may be gone, and the query with it, or its session closed by then."""
        if self.query is not None:
            with nullcontext() if is_here(self._session) else suppress(PySparkException):
                self.query.stop()

    @property
    def is_active(self) -> bool:
        return self.query is not None and self.query.isActive

    @property
    def is_initializing(self) -> bool:
        """Whether it is on the way to its first batch, as Spark says in words."""
        return self.query is not None and self.query.isActive and "Initializing" in self.query.status["message"]

    @property
    def failure(self) -> Exception | None:
        if self._failure is not None or self.query is None:
            return self._failure
        is_over = not self.query.isActive
        return self.query.exception() or (
            PipelineError("the query was stopped by somebody else") if is_over and not self._ends else None
        )

    def batch_ended(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def new_failure(self) -> Exception | None:
        """Once for each time it fails; from then on a pause goes by."""
        if self._begin_at_s or self.failure is None:
            return None
        self._begin_at_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return self.failure

    def begin_again(self) -> None:
        """If it has failed, and the pause is over."""
        if not self._begin_at_s or time.monotonic() < self._begin_at_s:
            return
        self._begin_at_s = 0.0
        try:
            self.begin()
        except Exception as error:
            self._failure = error


def settle(queries: Sequence[SinkQuery], tasks: Callable[[], int], within_s: float | None) -> None:
    """What these have left open is ended, when no task of them can begin anything more.

    It goes on beside if that takes longer: who has to stop has little time, and a cluster that does not answer would
    take it all. Then a driver is killed, and with it the pipelines that share it.
    """

    def settle_each() -> None:
        deadline_s = time.monotonic() + TASKS_END_WITHIN_S
        try:
            while tasks() and time.monotonic() < deadline_s:
                time.sleep(LOOK_EVERY_S)
            for query in queries:
                query.settle()
        except Exception as error:  # Spark may be gone meanwhile
            logger.warning("whether tasks have left transactions open is not known: %s", error)

    settling = threading.Thread(target=settle_each, name="settling", daemon=True)
    settling.start()
    settling.join(within_s)
