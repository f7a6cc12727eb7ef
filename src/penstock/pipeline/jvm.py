"""What only the JVM of a session can say. A session of Spark Connect has none here: then less is checked beforehand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

ListFiles = Callable[[str], Collection[str]]
"""The names in a directory, none where there is no such directory."""

JOBS_LOOKED_AT: Final = 64
"""The latest: those before them have ended."""
POOL: Final = "spark.scheduler.pool"
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
STREAMING: Final = "org.apache.spark.sql.execution.streaming"
BY_FILE_SYSTEM: Final = [
    f"{STREAMING}.{package}FileSystemBasedCheckpointFileManager" for package in ("checkpointing.", "")
]
"""The first is of Spark 4.1 and later."""
MOVING: Final = ("Aggregate", "Deduplicate", "Distinct", "Group", "Rebalance", "Repartition", "WithState")
"""Within the names of what hands rows from task to task."""
JOIN, SUBQUERY = "Join", "Subquery"
_numbers: Final[dict[str, int]] = {}
"""Of the queries of this process."""


def _jvm_of(session: SparkSession) -> Any:
    """None where there is none."""
    return getattr(session, "_jvm", None)


def is_here(session: SparkSession) -> bool:
    """Whether Spark's driver is this process, and not a server of Spark Connect."""
    return _jvm_of(session) is not None


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """In this thread: Spark looks for `format("penstock")` in the session that is active in the thread that writes, and
    a new thread has none.
    """
    jvm = _jvm_of(session)
    if jvm is None:
        yield
        return
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def forget(session: SparkSession) -> None:
    """Of a driver that goes on: what tells the session's listeners of its queries, which Spark keeps, and tells of all
    queries of the driver, until that ends.
    """
    if _jvm_of(session) is None:
        return
    manager = session._jsparkSession.sessionState().streamingQueryManager()
    for field in manager.getClass().getDeclaredFields():
        if field.getType().getSimpleName() == "StreamingQueryListenerBus":
            field.setAccessible(True)
            session.sparkContext._jsc.sc().listenerBus().removeListener(field.get(manager))


def has_ended(session: SparkSession) -> bool:
    """Whether Java, which this process has started, is there no more, or Spark in it was stopped: by errors of its own,
    or by somebody's `spark.stop()`.
    """
    context = session.sparkContext
    if context._gateway.proc.poll() is not None or context._jsc is None:  # type: ignore[union-attr]
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # it ends at this moment
        return True


def tasks_of(session: SparkSession, runs: Collection[str]) -> int:
    """How many tasks of these runs of queries are under way, also where they were cancelled: a task that has a Python
    goes on for some seconds. 0 where nobody knows, as in Spark Connect.
    """
    context = getattr(session, "sparkContext", None)
    if context is None:
        return 0
    known = context.statusTracker()
    jobs = [job for run in runs for job in sorted(known.getJobIdsForGroup(run))[-JOBS_LOOKED_AT:]]
    stages = {stage for job in map(known.getJobInfo, jobs) if job is not None for stage in job.stageIds}
    return sum(stage.numActiveTasks for stage in map(known.getStageInfo, stages) if stage is not None)


def of_this_run(session: SparkSession, key: str) -> str | None:
    """What Spark notes by that key for the jobs of this thread."""
    return None if _jvm_of(session) is None else session.sparkContext.getLocalProperty(key)


def page_of(session: SparkSession) -> str | None:
    """Where Spark shows what it does (`spark.ui.enabled`)."""
    return None if _jvm_of(session) is None else session.sparkContext.uiWebUrl


def file_lister(session: SparkSession) -> ListFiles:
    """Lists as Spark does, on any file system; without a JVM only on the local one."""
    jvm = _jvm_of(session)
    if jvm is None:
        return local_files
    paths = jvm.org.apache.hadoop.fs
    configuration = session._jsparkSession.sessionState().newHadoopConf()

    def names(path: str) -> list[str]:
        place = paths.Path(path)
        files = place.getFileSystem(configuration)
        return [status.getPath().getName() for status in files.listStatus(place)] if files.exists(place) else []

    return names


def local_files(path: str) -> list[str]:
    folder = Path(path.removeprefix("file://"))
    return [item.name for item in folder.iterdir()] if folder.is_dir() else []


def known_settings(session: SparkSession) -> set[str]:
    """Of Spark's own; none without a JVM."""
    jvm = _jvm_of(session)
    if jvm is None:
        return set()
    entries = getattr(jvm.org.apache.spark.internal.config, "ConfigEntry$").__getattr__("MODULE$")
    return set(jvm.java.lang.String.join("\n", entries.knownConfigs().keySet()).split("\n"))


def has_format(session: SparkSession, name: str) -> bool:
    """Whether Spark finds a data source by this name; without a JVM it is taken to, and the start of a query tells."""
    jvm = _jvm_of(session)
    if jvm is None:
        return True
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(name, session._jsparkSession.sessionState().conf())
    except Exception:
        return False
    return True


def check_as_stream(session: SparkSession, frame: DataFrame, mode: str) -> None:
    """Spark's own error where it cannot run the frame as a stream; without a JVM the start of a query tells."""
    jvm = _jvm_of(session)
    if jvm is not None:
        spark = jvm.org.apache.spark.sql
        output_mode = getattr(spark.streaming.OutputMode, mode.capitalize())()
        checker = spark.catalyst.analysis.UnsupportedOperationChecker
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), output_mode)


def names_of_reads(frame: DataFrame) -> list[str]:
    """The name of each stream that a frame reads, as often as it reads it; none without a JVM."""
    if not hasattr(frame, "_jdf"):
        return []
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    all_of_them = map(leaves.apply, range(leaves.size()))
    streams = [leaf for leaf in all_of_them if "StreamingRelation" in leaf.getClass().getName()]
    return [leaf.sourceIdentifyingName().toString().removeprefix("name=").strip('"') for leaf in streams]


def moved_by(frame: DataFrame) -> list[str]:
    """What of a frame hands rows from task to task, as Spark calls it, so that they come in another order; none without
    a JVM. Of a stream that is what its own rows go through, and not what tables are made by.
    """
    if not hasattr(frame, "_jdf"):
        return []
    becomes_a_join = partial(_becomes_a_join, _jvm_of(frame.sparkSession))
    found, plans = [], [frame._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        below = _all_of(plan.children())
        streams = [one for one in below if one.isStreaming()]
        name = str(plan.nodeName())
        if name == JOIN:  # Spark hands rows out by their keys, but where it sends a table to each task
            moves = plan.isStreaming() and [one.isStreaming() for one in below if _is_broadcast(one)] != [False]
        elif name == "Repartition":
            moves = plan.shuffle()  # `coalesce` does not
        else:
            moves = any(word in name for word in MOVING)
        if moves:
            found.append(name)
        if streams and plan.subqueries().nonEmpty() and any(map(becomes_a_join, _all_of(plan.expressions()))):
            found.append(SUBQUERY)
        plans += streams or below
    return found


def _all_of(sequence: Any) -> list[Any]:
    """Of Scala's."""
    return [sequence.apply(number) for number in range(sequence.size())]


def _is_broadcast(plan: Any) -> bool:
    """Whether it has the hint: the outermost counts, through whatever has one input. By its size alone nobody knows."""
    while plan.nodeName() != "ResolvedHint" or plan.hints().strategy().isEmpty():
        inputs = plan.children()
        if inputs.size() != 1:
            return False
        plan = inputs.apply(0)
    return str(plan.hints().strategy().get().displayName()) == "broadcast"


def _becomes_a_join(jvm: Any, expression: Any) -> bool:
    subqueries = jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression
    return any((subqueries.hasInOrCorrelatedExistsSubquery(expression), subqueries.hasCorrelatedSubquery(expression)))


class TextFiles:
    """Small ones beside checkpoints, on every file system that Spark writes to.

    A session of Spark Connect sees no files, and makes none.
    """

    def __init__(self, session: SparkSession) -> None:
        self.names = file_lister(session)
        self._session = session

    @property
    def has_some(self) -> bool:
        return is_here(self._session)

    def read(self, path: str) -> str:
        java, files, place = self._at(path)
        stream = files.open(place)
        try:
            text: str = java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def create(self, path: str, text: str, *, overwrites: bool = False) -> bool:
        """As a whole; False if it is there already."""
        java, files, place = self._at(path)
        draft = java.org.apache.hadoop.fs.Path(f"{path}.{java.java.util.UUID.randomUUID()}")
        stream = files.create(draft)
        stream.write(bytearray(text.encode()))
        stream.close()
        options = getattr(java.org.apache.hadoop.fs, "Options$Rename")
        how = self._session.sparkContext._gateway.new_array(options, 1)  # type: ignore[union-attr]
        how[0] = options.valueOf("OVERWRITE" if overwrites else "NONE")
        context = java.org.apache.hadoop.fs.FileContext.getFileContext(files.getUri(), self._configuration)
        try:
            context.rename(draft, place, how)
        except Exception:
            files.delete(draft, False)
            if overwrites or not files.exists(place):
                raise
            return False
        return True

    @property
    def _configuration(self) -> Any:
        return self._session._jsparkSession.sessionState().newHadoopConf()

    def _at(self, path: str) -> tuple[Any, Any, Any]:
        java = _jvm_of(self._session)
        place = java.org.apache.hadoop.fs.Path(path)
        return java, place.getFileSystem(self._configuration), place


def is_elsewhere(query: StreamingQuery) -> bool:
    """Whether a server of Spark Connect runs it."""
    return not hasattr(query, "_jsq")


def execution_of(query: StreamingQuery) -> Any:
    """What runs a query; None without a JVM, or where the query has ended."""
    wrapped = getattr(query, "_jsq", None)
    return wrapped.streamingQuery() if wrapped is not None and query.isActive else None


@contextmanager
def pool_of(session: SparkSession, name: str) -> Iterator[None]:
    """A query that starts meanwhile has its share of the cores beside others (Spark's FAIR scheduler).

    There are as many pools as tasks can run at a time, in which the batch goes first that came first. With more, those
    with the last names would wait for as long as the others keep all cores busy.
    """
    context = None if _jvm_of(session) is None else session._jsparkSession.sparkContext()
    if context is not None:
        profile = context.resourceProfileManager().defaultResourceProfile()
        most = max(context.maxNumConcurrentTasks(profile), 1)  # not spark.default.parallelism: a user may set that
        number = _numbers.setdefault(name, len(_numbers)) % most
        context.setLocalProperty(POOL, f"pool {number}")
    try:
        yield
    finally:
        if context is not None:
            context.setLocalProperty(POOL, None)


@contextmanager
def local_files_written_quickly(session: SparkSession, places: Collection[str]) -> Iterator[None]:
    """For a query that starts meanwhile, where these, its checkpoint and its output, are on local disks and nobody has
    set another way.

    Spark renames what it has written by Hadoop's `FileContext`, which asks `readlink` and `chmod` for each file, as
    processes that Java forks: 40 for each batch, and 9 by `FileSystem`, which does the same on a local disk.
    """
    jvm = _jvm_of(session)
    way = None if jvm is None else next(filter(partial(_is_there, jvm), BY_FILE_SYSTEM), None)
    if way is None or session.conf.get(CHECKPOINT_FILES, None) is not None or not _are_local(session, places):
        yield
        return
    session.conf.set(CHECKPOINT_FILES, way)
    try:
        yield
    finally:
        session.conf.unset(CHECKPOINT_FILES)


def _are_local(session: SparkSession, places: Collection[str]) -> bool:
    files = session._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    usual = files.FileSystem.getDefaultUri(session._jsparkSession.sessionState().newHadoopConf()).getScheme()
    return all((files.Path(place).toUri().getScheme() or usual) == "file" for place in places)


def _is_there(jvm: Any, name: str) -> bool:
    try:
        jvm.java.lang.Class.forName(name)
    except Exception:
        return False
    return True
