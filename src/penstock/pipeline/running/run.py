"""Runs a pipeline until it is done or told to stop; from the same checkpoint it goes on where it was.

Each sink is a streaming query of its own, all in one session. On one machine they share what they fetch.
"""

import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles, active_session, file_lister, is_here, tasks_of
from penstock.pipeline.running.checkpoints import checkpoints_of
from penstock.pipeline.running.draining import drain
from penstock.pipeline.running.frames import Raw, check_reads, frames_of_sinks, named_sources, sink_writer, stream_of
from penstock.pipeline.running.pinned_schemas import NEVER_MS, with_pinned_schemas
from penstock.pipeline.running.progress import BatchProgress, ProgressFeed
from penstock.pipeline.running.settings import misspelt_settings
from penstock.pipeline.running.sink_query import SETTLES_WITHIN_S, SinkQuery, settle
from penstock.pipeline.running.stored import check_partitions, sources_have_names
from penstock.pipeline.running.targets import check_target
from penstock.pipeline.session import spark_session
from penstock.pipeline.spec.pipeline import AVAILABLE_NOW, ONCE, PipelineSpec
from penstock.pipeline.spec.user_code import described, plain_message
from penstock.protocol.value import Value, fresh

LOOK_EVERY_S = 0.2
TURN_WITHIN_S = 20.0
OnProgress = Callable[[BatchProgress], None]
OnFailure = Callable[[str, str], None]
"""Gets a query, and why it failed."""


class BesideOthers(Value):
    """What a pipeline shares with others of its process: a directory in which they find what one of them has fetched,
    and how many may be planned at a time, as Spark starts processes for each.
    """

    fetches: str
    turns: threading.Semaphore
    begun: list[str] = fresh(list)
    """Of this pipeline alone: the runs of its queries, when it ends."""

    @contextmanager
    def turn(self, stop: threading.Event) -> Iterator[None]:
        """It comes after a while in any case: others may wait for a cluster that does not answer. Who is to stop waits
        for none.
        """
        deadline_s, has_turn = time.monotonic() + TURN_WITHIN_S, False
        while not (has_turn or stop.is_set() or time.monotonic() >= deadline_s):
            has_turn = self.turns.acquire(timeout=LOOK_EVERY_S)
        try:
            yield
        finally:
            if has_turn:
                self.turns.release()


class PipelineResult(Value):
    batches: Mapping[str, int]
    input_rows: Mapping[str, int]
    was_stopped: bool


def run_pipeline(
    spec: PipelineSpec,
    on_progress: OnProgress | None = None,
    on_failure: OnFailure | None = None,
    *,
    session: SparkSession | None = None,
    master: str = "local[*]",
    log_file: Path | None = None,
    stop: threading.Event | None = None,
    deployed_ms: int = NEVER_MS,
    beside: BesideOthers | None = None,
) -> PipelineResult:
    """Run until all queries end by themselves (trigger available-now or once), `stop` is set or Ctrl-C comes.

    `latest` of a schema registry is what the checkpoint says, or is taken anew if that is older than `deployed_ms`.
    Where `stop` is set the batches under way end first; an exception, such as that of Ctrl-C, interrupts them.

    With `on_failure` a query that fails is begun again, as long as another one is active; else all end with it.
    `beside` is what it shares with other pipelines in this process, if there are any.

    Without a `session` one is made for `master`. PipelineError says in a sentence what is wrong; its cause is Spark's
    own exception.
    """
    queries: list[SinkQuery] = []
    stop = stop or threading.Event()
    feed = ProgressFeed()
    try:
        with in_a_sentence(spec.file), ExitStack() as stack:
            session = session or spark_session(spec.name, master=master, config=spec.spark, log_file=log_file)
            stack.enter_context(active_session(session))
            for problem in misspelt_settings(session, spec.spark):
                raise PipelineError(problem)
            checkpoints = checkpoints_of(spec, file_lister(session))
            check_partitions(session, spec)
            spec = with_pinned_schemas(spec, TextFiles(session), deployed_ms)
            stack.enter_context(closing(feed.added_to(session)))
            has_names = sources_have_names(session, spec)
            with _shared_fetches(session, spec, beside) as shared, named_sources(session, has_names=has_names):
                streams = stream_of(session, shared, has_names=has_names)
                with nullcontext() if beside is None else beside.turn(stop):
                    if not stop.is_set():
                        _begin(session, spec, streams, checkpoints, queries)
                    if beside is not None:
                        _until_sources_are_there(queries, stop)
                run = _Run(spec, queries, feed, on_progress, on_failure)
                while run.is_active() and not stop.is_set():
                    run.report()
                    run.begin_again()
                    stop.wait(LOOK_EVERY_S)
                begun = [query.query for query in queries if query.query is not None]
                drain(begun)
                runs = [str(query.runId) for query in begun]
                settle(queries, partial(tasks_of, session, runs), SETTLES_WITHIN_S if stop.is_set() else None)
                feed.wait_for_ends(runs)
                run.report()
                if not stop.is_set():
                    run.raise_failure()
                return run.result(stop.is_set())
    finally:
        if beside is not None:
            beside.begun.extend(str(query.query.runId) for query in queries if query.query is not None)
        for query in queries:
            query.stop()


def _begin(
    session: SparkSession, spec: PipelineSpec, streams: Raw, checkpoints: Mapping[str, str], queries: list[SinkQuery]
) -> None:
    for sink, frame in frames_of_sinks(session, spec, streams, registers=True):
        check_reads(frame)
        if is_here(session):  # elsewhere the first rows tell
            check_target(sink, frame)
        checkpoint, ends = checkpoints[sink.name], spec.trigger in (AVAILABLE_NOW, ONCE)
        writer = sink_writer(frame, spec, sink, checkpoint)
        queries.append(SinkQuery(session, spec.query_name(sink), sink, writer, checkpoint, ends=ends))
        queries[-1].begin()


def _until_sources_are_there(queries: list[SinkQuery], stop: threading.Event) -> None:
    """Each query starts processes for them, in a thread of its own."""
    deadline_s = time.monotonic() + TURN_WITHIN_S
    while any(query.is_initializing for query in queries) and time.monotonic() < deadline_s:
        if stop.wait(LOOK_EVERY_S):
            return


@contextmanager
def _shared_fetches(session: SparkSession, spec: PipelineSpec, beside: BesideOthers | None) -> Iterator[str | None]:
    """A directory for what several sinks fetch, where all of Spark is on this machine."""
    is_local = is_here(session) and (session.conf.get("spark.master", "") or "").startswith("local")
    if beside is not None or len(spec.running) < 2 or not is_local:
        yield None if beside is None else beside.fetches
        return
    with tempfile.TemporaryDirectory(
        prefix="penstock-fetches-", dir=session.conf.get("spark.local.dir", None), ignore_cleanup_errors=True
    ) as folder:
        yield folder


class _Run:
    def __init__(
        self,
        spec: PipelineSpec,
        queries: list[SinkQuery],
        feed: ProgressFeed,
        on_progress: OnProgress | None,
        on_failure: OnFailure | None,
    ) -> None:
        self._spec = spec
        self._queries = queries
        self._feed = feed
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._batches = dict.fromkeys((query.name for query in queries), 0)
        self._rows = dict.fromkeys(self._batches, 0)

    def is_active(self) -> bool:
        """Whether to wait on."""
        has_failed = self._on_failure is None and any(query.failure for query in self._queries)
        return any(query.is_active for query in self._queries) and not has_failed

    def begin_again(self) -> None:
        for query in self._queries if self._on_failure is not None else ():
            failure = query.new_failure()
            if failure is not None and self._on_failure is not None:
                self._on_failure(query.name, described(failure, self._spec.file) or plain_message(failure))
            query.begin_again()

    def report(self) -> None:
        by_name = {query.name: query for query in self._queries}
        for batch in self._feed.new_batches():
            if batch.query in by_name:  # others may run in the same session
                by_name[batch.query].batch_ended()
                self._batches[batch.query] += 1
                self._rows[batch.query] += batch.input_rows
                if self._on_progress is not None:
                    self._on_progress(batch)

    def raise_failure(self) -> None:
        for query in self._queries:
            if query.failure is not None:
                raise query.failure

    def result(self, was_stopped: bool) -> PipelineResult:
        return PipelineResult(self._batches, self._rows, was_stopped)


@contextmanager
def in_a_sentence(file: Path | None) -> Iterator[None]:
    """Spark's errors, and those of a user's file, as PipelineError with the original as the cause."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        said = described(error, file)
        if said is None and not isinstance(error, PySparkException):
            raise
        raise PipelineError(said or plain_message(error)) from error


def keep_in_log(error: BaseException, log_file: Path | None) -> None:
    """Adds Spark's error to the log: Spark prints no errors of queries, as those are raised."""
    if error.__cause__ is None:
        return
    if log_file is None:
        traceback.print_exception(error.__cause__)
    else:
        with log_file.open("a", encoding="utf-8") as log:
            log.writelines(traceback.format_exception(error.__cause__))
