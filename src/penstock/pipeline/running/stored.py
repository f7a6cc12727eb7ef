"""What the checkpoints of a pipeline hold, and how that is changed while nothing runs: state, partitions, offsets."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.client.blocking import BlockingCluster
from penstock.pipeline.datasource.cluster_offsets import SourceCluster
from penstock.pipeline.datasource.stream_position import StreamPosition, from_json, to_json
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.pipeline.session import PARTITIONS
from penstock.pipeline.spec.pipeline import PENSTOCK, PipelineSpec, SinkSpec
from penstock.protocol.value import Value

STARTING: Final = "starting"
"""How the options begin that say where a source starts."""


class StateStore(Value):
    """A part of the state of a query; `keys` in all its partitions."""

    sink: str
    operator: str
    name: str
    partitions: int
    keys: int


UNNAMED: Final = "v1"
"""With this begin the offsets of sources without names; it is Spark's."""


class StoredQuery:
    """The checkpoint of one sink."""

    def __init__(self, session: SparkSession, spec: PipelineSpec, sink: SinkSpec) -> None:
        self.sink = sink
        self.place = spec.checkpoint_of(sink)
        self._files = TextFiles(session)
        self._session = session
        self._last = max(self._numbers("offsets"), default=None)

    @property
    def has_begun(self) -> bool:
        return self._last is not None

    @property
    def has_state(self) -> bool:
        return bool(self._files.names(f"{self.place}/state"))

    @property
    def partitions(self) -> int:
        """Of the state, as of its last batch."""
        return int(json.loads(self._lines()[1])["conf"][PARTITIONS])

    def check_whole(self) -> None:
        """PipelineError where a batch was cut: what it has written already belongs to these offsets and partitions."""
        if self._last != max(self._numbers("commits"), default=None):
            raise PipelineError(
                f"Batch {self._last} of sink {self.sink.name} was cut. Let it end first, with --available-now: "
                f"penstock pipeline run FILE --sink {self.sink.name} --available-now"
            )

    def stores(self) -> Iterator[StateStore]:
        if not self.has_state:
            return
        for row in self._session.read.format("state-metadata").load(self.place).collect():
            said = json.loads(row.operatorProperties or "{}")
            variables = [one["stateName"] for one in said.get("stateVariables", ())]
            where = {"operatorId": str(row.operatorId), "storeName": row.stateStoreName}
            for variable in variables or [""]:
                which = where | ({"stateVarName": variable} if variable else {})
                keys = self._session.read.format("statestore").options(**which).load(self.place).count()
                name = variable or row.stateStoreName
                yield StateStore(self.sink.name, row.operatorName, name, self.partitions, keys)

    def repartition(self, partitions: int) -> None:
        """By Spark's own means, as a batch without rows."""
        self.check_whole()
        self._session._streamingCheckpointManager.repartition(self.place, partitions)

    def move(self, to: Mapping[str, StreamPosition]) -> None:
        """The next batch begins there, of the sources with these names."""
        self.check_whole()
        version, metadata, *sources = self._lines()
        if version == UNNAMED:
            raise PipelineError(
                f"The checkpoint {self.place} is of an earlier release, which gave sources no names: nobody can say "
                "which offsets to move. Give the sink another checkpoint, and begin its sources where they are wanted."
            )
        moved = dict(line.split(":", 1) for line in sources)
        for name, position in to.items():
            if self.has_state and _goes_back(position, moved.get(name)):
                raise PipelineError(
                    f"Sink {self.sink.name} has state, which would count the rows of source {name} again: "
                    "it can only go forward. To read them again give it a new checkpoint."
                )
            moved[name] = json.dumps(to_json(position))
        text = "\n".join([version, metadata, *(f"{name}:{where}" for name, where in moved.items())])
        self._files.create(f"{self.place}/offsets/{self._last}", text, overwrites=True)

    @property
    def has_unnamed_sources(self) -> bool:
        return self._lines()[0] == UNNAMED

    def _numbers(self, part: str) -> list[int]:
        return [int(name) for name in self._files.names(f"{self.place}/{part}") if name.isdecimal()]

    def _lines(self) -> list[str]:
        return self._files.read(f"{self.place}/offsets/{self._last}").splitlines()


def stored_queries(session: SparkSession, spec: PipelineSpec) -> list[StoredQuery]:
    """PipelineError where nothing has run yet."""
    found = [query for sink in spec.running if (query := StoredQuery(session, spec, sink)).has_begun]
    if not found:
        raise PipelineError(f"Pipeline {spec.name} has no checkpoint in {spec.checkpoint_root}.")
    return found


def sources_have_names(session: SparkSession, spec: PipelineSpec) -> bool:
    """Not so where a checkpoint is of a release that gave them none: Spark counts those, and keeps to that.

    PipelineError where there are several, which could take each other's offsets.
    """
    if not TextFiles(session).has_some:
        return True
    queries = [StoredQuery(session, spec, sink) for sink in spec.running]
    unnamed = [query for query in queries if query.has_begun and query.has_unnamed_sources]
    if unnamed and len(spec.sources) > 1:
        raise PipelineError(
            f"The checkpoint {unnamed[0].place} is of an earlier release, which gave sources no names, so it goes on "
            "with one source alone. Give the sink another checkpoint, and begin its sources where it ended."
        )
    return not unnamed


def check_partitions(session: SparkSession, spec: PipelineSpec) -> None:
    """PipelineError where the file says another number of partitions than the state has: Spark keeps the latter, in
    silence.
    """
    stated = spec.spark.get(PARTITIONS)
    if stated is None or not TextFiles(session).has_some:
        return
    for query in (StoredQuery(session, spec, sink) for sink in spec.running):
        if query.has_begun and query.has_state and stated != str(query.partitions):
            raise PipelineError(
                f"The pipeline says {PARTITIONS}: {stated}, and the state of sink {query.sink.name} has "
                f"{query.partitions} partitions. Spread it anew with penstock pipeline repartition FILE {stated}, "
                f"or say {query.partitions}."
            )


def positions_at(spec: PipelineSpec, starting: Mapping[str, str], name: str | None = None) -> dict[str, StreamPosition]:
    """Where sources of topics, or the one with this name, would start with these options; PipelineError."""
    if name is not None and name not in spec.sources:
        raise PipelineError(f"Pipeline {spec.name} has no source {name}; its sources are {', '.join(spec.sources)}.")
    chosen = {one: source for one, source in spec.sources.items() if name in (None, one)}
    topics = {one: source.options for one, source in chosen.items() if source.format == PENSTOCK}
    return {one: position_of(options, starting) for one, options in topics.items()}


def position_of(topic: Mapping[str, str], starting: Mapping[str, str]) -> StreamPosition:
    """Where a source of these options would start with `starting` instead of what they say; PipelineError."""
    kept = {option: value for option, value in topic.items() if not option.lower().startswith(STARTING)}
    options = source_options(read_options({**kept, **starting}), streaming=True)
    cluster = BlockingCluster(options.settings)
    try:
        return SourceCluster(cluster, options).first_position()
    finally:
        cluster.close()


def _goes_back(position: StreamPosition, stored: str | None) -> bool:
    known: Any = json.loads(stored) if stored is not None and stored.startswith("{") else {}
    before = from_json(known).offsets
    return any(offset < before.get(partition, 0) for partition, offset in position.offsets.items())
