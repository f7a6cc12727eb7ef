"""All that a reader must know, from options to values; it goes to the executors, so it is plain data."""

from penstock.client.blocking import ClusterSettings
from penstock.client.values import EARLIEST, LATEST, IsolationLevel
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.boundaries import AtOffsets, Boundary, Subscription, Word, boundary, subscription
from penstock.pipeline.options.table import Options, cluster_settings
from penstock.pipeline.options.values import choice, size_in_bytes, time_in_ms
from penstock.protocol.value import Value

FETCH_BYTES = 4 << 20
MAX_BYTES_PER_TRIGGER = 512 << 20
"""Without any limit set: a first batch that began at `earliest` would otherwise be the whole topic."""
MAX_TRIGGER_DELAY_MS = 15 * 60_000
POLL_TIMEOUT_MS = 120_000
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


class SourceOptions(Value):
    """Limits of 0 mean that there is none."""

    settings: ClusterSettings
    subscription: Subscription
    starting: Boundary
    ending: Boundary
    latest_where_no_timestamp: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int
    min_offsets_per_trigger: int
    max_bytes_per_trigger: int
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partitions_per_task: int | None
    include_headers: bool
    isolation: IsolationLevel
    group: str | None
    commits_offsets: bool
    fetch_bytes: int
    poll_timeout_ms: int
    shared_fetches: str | None = None


def source_options(options: Options, *, streaming: bool) -> SourceOptions:
    """PipelineError names the first option that is wrong."""
    starting, ending = _boundaries(options, streaming)
    group = options.text("group.id")
    if Word.COMMITTED in (starting, ending) and group is None:
        raise PipelineError(
            "startingOffsets=committed needs the option kafka.group.id: whose offsets?", option="startingOffsets"
        )
    strategy = choice(
        "startingOffsetsByTimestampStrategy",
        options.text("startingOffsetsByTimestampStrategy") or "error",
        ("error", "latest"),
    )
    isolation = choice(
        "isolation.level", options.text("isolation.level") or "read_uncommitted", ("read_committed", "read_uncommitted")
    )
    max_offsets, max_bytes = _limits(options)
    min_offsets = options.number("minOffsetsPerTrigger", 0)
    if max_offsets and min_offsets > max_offsets:
        raise PipelineError(
            f"minOffsetsPerTrigger={min_offsets} is more than maxOffsetsPerTrigger={max_offsets}.",
            option="minOffsetsPerTrigger",
        )
    return SourceOptions(
        settings=cluster_settings(options),
        subscription=subscription(options),
        starting=starting,
        ending=ending,
        latest_where_no_timestamp=strategy == "latest",
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_bytes_per_trigger=max_bytes,
        max_trigger_delay_ms=time_in_ms(
            "maxTriggerDelay", options.text("maxTriggerDelay") or str(MAX_TRIGGER_DELAY_MS)
        ),
        min_partitions=options.number("minPartitions", 0, 1) or None,
        max_records_per_partition=options.number("maxRecordsPerPartition", 0, 1) or None,
        max_partitions_per_task=options.number("maxPartitionsPerTask", 0, 1) or None,
        include_headers=options.boolean("includeHeaders", False),
        isolation=IsolationLevel[isolation.upper()],
        group=group,
        commits_offsets=group is not None and options.boolean("commitOffsets", True),
        fetch_bytes=options.number("max.partition.fetch.bytes", FETCH_BYTES, 1),
        poll_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS, 1),
        shared_fetches=options.text("sharedFetches"),
    )


def _boundaries(options: Options, streaming: bool) -> tuple[Boundary, Boundary]:
    starting = boundary(options, "starting", Word.LATEST if streaming else Word.EARLIEST)
    ending = boundary(options, "ending", Word.LATEST)
    if streaming:
        given = [name for name in BATCH_ONLY if options.text(name) is not None]
        if given:
            raise PipelineError(f"Option {given[0]} is for batch queries: a stream has no end.", option=given[0])
    else:
        _check_batch(starting, ending)
    return starting, ending


def _check_batch(starting: Boundary, ending: Boundary) -> None:
    if starting == Word.LATEST or _has(starting, LATEST):
        raise PipelineError(
            "startingOffsets=latest (or -1) is for streams: a batch query that starts there reads nothing."
        )
    if ending == Word.EARLIEST or _has(ending, EARLIEST):
        raise PipelineError("endingOffsets=earliest (or -2): nothing lies before the earliest offset.")


def _has(where: Boundary, offset: int) -> bool:
    return isinstance(where, AtOffsets) and offset in where.offsets.values()


def _limits(options: Options) -> tuple[int, int]:
    max_offsets = options.number("maxOffsetsPerTrigger", 0)
    text = options.text("maxBytesPerTrigger")
    if text is not None:
        return max_offsets, size_in_bytes("maxBytesPerTrigger", text)
    return max_offsets, 0 if max_offsets else MAX_BYTES_PER_TRIGGER
