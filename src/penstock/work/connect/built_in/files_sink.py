"""Records in files of Parquet or JSON lines, on a disk or in an object store, each record exactly once.

    connector.class=penstock.FilesSink
    topics=clicks
    store.url=s3://bucket/lake
    format=parquet
    flush.size=10000

A file is called by the topic, the partition and the offset of its first record:

    <store.url>/<topics.dir>/clicks/partition=0/clicks+0+00000000000000012000.parquet

Where it ends is a matter of the records alone: after `flush.size` of them, after `flush.bytes`, before one that is
`rotate.interval.ms` later than the first, or whose columns or topic do not go with those before. Only what is in files
is committed. So the task that goes on after a crash writes the same files once more, under the same names.

`rotate.schedule.interval.ms` ends files by the clock, so that quiet partitions have theirs as well. A crash between
such a file and its commit replaces it by another one that begins at the same record.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Final

from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import RetriableError, SinkConnector, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.built_in.files_format import COLUMNS, UNFIT, FileRow, Format, JsonLines, Parquet
from penstock.work.connect.built_in.files_store import Store
from penstock.work.connect.config import ConfigError, ConfigKey, bare, parse, with_prefix

COMPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("snappy", "none", "gzip", "zstd"),
    "json": ("none", "gzip"),
}
"""Those of each format; the first is its default."""
OPTION: Final = "store.option."
logger = logging.getLogger(__name__)
KEYS: Final = (
    ConfigKey("store.url", required=True, documentation="the directory, or the URL of fsspec", importance="high"),
    ConfigKey("topics.dir", default="topics", documentation="The directory in it that has one for each topic."),
    ConfigKey("format", default="parquet", documentation="What the files are.", choices=tuple(COMPRESSIONS)),
    ConfigKey("compression.type", documentation="How they are compressed; Parquet by snappy, JSON not at all."),
    ConfigKey("flush.size", "int", 10_000, "A file has so many records.", least=1),
    ConfigKey("flush.bytes", "long", 64 * 1024 * 1024, "A file ends when it has about so many bytes.", least=1),
    ConfigKey("rotate.interval.ms", "long", -1, "A file's records are no further apart; -1: as far as they like."),
    ConfigKey("rotate.schedule.interval.ms", "long", -1, "A file ends after so long; -1: when it is full."),
    ConfigKey("kafka.columns", "list", (), f"More columns, such as kafka_offset; of {', '.join(COLUMNS)}."),
    ConfigKey(
        "behavior.on.null.values", default="fail", documentation="Records without a value.", choices=("fail", "ignore")
    ),
)


@dataclass(slots=True)
class Page:
    """The rows of a partition that are in no file yet; the first `looked` of them go into the next one."""

    rows: list[FileRow] = field(default_factory=list)
    looked: int = 0
    size: int = 0
    next: int = 0
    begun_s: float = 0.0


class FilesSinkTask(SinkTask):
    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        self._settings = parse(KEYS, config)
        self._context = context
        self._format = _format(config)
        self._store = Store(self._settings["store.url"], with_prefix(config, OPTION))
        self._pages: dict[TopicPartition, Page] = {}
        self._unclean: dict[TopicPartition, None] = {}
        """Where there may be what earlier tasks have not finished writing."""
        self._comes_again = False
        self._reported: list[tuple[SinkRecord, Exception]] = []
        """Of the records of the last `put`, if it is to come again."""
        self.clock = time.monotonic

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """A store that cannot be reached is cleaned before the first file."""
        for partition in partitions:
            self._unclean[partition] = None
            with suppress(OSError):
                self._clean(partition)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """A store that cannot be reached is tried again, with what is not here yet; what was reported is so again."""
        comes_again, self._comes_again = self._comes_again, False
        for record, error in self._reported:
            self._context.report(record, error)
        rows = [row for record in records if (row := self._take(record, comes_again)) is not None]
        refused = {id(row): error for row, error in self._format.refused(rows)} if rows else {}
        for row in rows:
            if id(row) in refused:
                self._context.report(row.record, refused[id(row)])
                continue
            page = self._pages[row.record.original]
            if not page.rows:
                page.begun_s = self.clock()
            page.rows.append(row)
        try:
            for partition, page in self._pages.items():
                self._advance(partition, page)
        except OSError as error:
            places = {record.place for record in records}
            self._comes_again = True
            self._reported = [one for one in self._context.reported if one[0].place in places]
            raise RetriableError(str(error)) from error
        self._reported = []

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Only what is in files may be committed, and nothing of a partition whose records come again elsewhere, for
        their `put` has not returned: files may have some of them, and the first of these begins at the last commit.
        """
        safe = dict(offsets)
        for partition, to in offsets.items():
            page = self._pages.get(partition)
            if page is not None and to.offset < page.next:
                del safe[partition]
                continue
            if page is not None and self._is_due(page):
                self._write_all(partition, page)
            if page is not None and page.rows:
                safe[partition] = OffsetAndMetadata(page.rows[0].record.offset)
        return safe

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """What is in no file comes again, here or elsewhere."""
        for partition in partitions:
            self._pages.pop(partition, None)
            self._unclean.pop(partition, None)
        self._reported = [one for one in self._reported if one[0].original not in partitions]

    def stop(self) -> None:
        """Nothing is open."""

    def _take(self, record: SinkRecord, comes_again: bool) -> FileRow | None:
        """The record as it is to be written; None if it is here already, or left out."""
        page = self._pages.setdefault(record.original, Page())
        if record.offset < page.next:
            if comes_again:
                return None
            page = self._pages[record.original] = Page()  # the position went back
        page.next = record.offset + 1
        try:
            if record.value is None:
                if self._settings["behavior.on.null.values"] == "ignore":
                    return None
                raise ValueError("a record without a value: behavior.on.null.values=fail")
            return self._format.row(record)
        except ValueError as error:
            self._context.report(record, error)
            return None

    def _advance(self, partition: TopicPartition, page: Page) -> None:
        while True:
            if self._is_full(page):
                self._write(partition, page, page.looked)
            elif page.looked == len(page.rows):
                return
            elif page.looked and self._is_apart(page.rows[0].record, page.rows[page.looked].record):
                self._write(partition, page, page.looked)
            else:
                page.size += page.rows[page.looked].size
                page.looked += 1

    def _is_full(self, page: Page) -> bool:
        return bool(page.looked >= self._settings["flush.size"] or page.size >= self._settings["flush.bytes"])

    def _is_apart(self, first: SinkRecord, other: SinkRecord) -> bool:
        if first.topic != other.topic:
            return True
        interval_ms: int = self._settings["rotate.interval.ms"]
        return 0 < interval_ms <= (other.timestamp_ms or 0) - (first.timestamp_ms or 0)

    def _is_due(self, page: Page) -> bool:
        interval_ms: int = self._settings["rotate.schedule.interval.ms"]
        return interval_ms > 0 and (self.clock() - page.begun_s) * 1000 >= interval_ms

    def _write_all(self, partition: TopicPartition, page: Page) -> None:
        """What the store does not take is tried again with the next flush."""
        try:
            while page.rows:
                self._write(partition, page, len(page.rows))
        except OSError as error:
            logger.warning("a file of %s is not written yet: %s", partition, error)

    def _clean(self, partition: TopicPartition) -> None:
        """OSError."""
        if partition in self._unclean:
            self._store.clean(self._folder(partition.topic, partition), f"{partition.topic}+{partition.partition}+")
            del self._unclean[partition]

    def _write(self, partition: TopicPartition, page: Page, count: int) -> None:
        """A file of at most `count` rows; OSError leaves everything as it was."""
        first = page.rows[0].record
        try:
            data, written = self._format.encode(page.rows[:count])
        except UNFIT as error:
            self._context.report(first, error)
            written = 1
        else:
            name = f"{partition.topic}+{partition.partition}+{first.offset:020}{self._format.extension}"
            self._clean(partition)
            self._store.write(self._folder(first.topic, partition), name, data)
            self._context.request_commit()
        del page.rows[:written]
        page.looked = page.size = 0
        page.begun_s = self.clock()

    def _folder(self, topic: str, partition: TopicPartition) -> str:
        return f"{self._settings['topics.dir']}/{topic}/partition={partition.partition}"


def _format(config: Mapping[str, str]) -> Format:
    """ConfigError."""
    settings = parse(KEYS, config)
    unknown = set(settings["kafka.columns"]) - set(COLUMNS)
    if unknown:
        raise ConfigError({"kafka.columns": [f"kafka.columns: {', '.join(sorted(unknown))} is not of {COLUMNS}"]})
    choices = COMPRESSIONS[settings["format"]]
    compression = parse((ConfigKey("compression.type", default=choices[0], choices=choices),), config)
    kind = Parquet if settings["format"] == "parquet" else JsonLines
    return kind(settings["kafka.columns"], compression["compression.type"])


class FilesSinkConnector(SinkConnector):
    """As many tasks as are allowed: the partitions are spread over them."""

    config_keys = KEYS
    secret_prefixes = (OPTION,)
    task_class: ClassVar[type[SinkTask]] = FilesSinkTask

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        _format(config)
        try:
            Store(config["store.url"], with_prefix(config, OPTION))
        except (ImportError, ValueError) as error:
            raise ConfigError({"store.url": [f"store.url={bare(config['store.url'])}: {error}"]}) from error

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]
