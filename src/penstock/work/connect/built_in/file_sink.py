"""Records as lines of a text file, as Kafka's FileStreamSink. After a crash some lines may be there twice."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TextIO

from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import SinkConnector, SinkContext, SinkRecord, SinkTask
from penstock.work.connect.config import ConfigKey, parse

KEYS = (ConfigKey("file", documentation="The file to append to; the standard output, if none is named."),)


class FileStreamSinkTask(SinkTask):
    _file: TextIO | None = None

    def start(self, config: Mapping[str, str], context: SinkContext) -> None:
        path = parse(KEYS, config)["file"]
        self._file = Path(path).open("a", encoding="utf-8") if path else None  # noqa: SIM115 - it stays open

    def put(self, records: Sequence[SinkRecord]) -> None:
        (self._file or sys.stdout).write("".join(f"{record.value}\n" for record in records))

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self._file is None:
            sys.stdout.flush()
        else:
            self._file.flush()
            os.fsync(self._file.fileno())

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()


class FileStreamSinkConnector(SinkConnector):
    """One task, for a file has one end."""

    config_keys = KEYS
    task_class: ClassVar[type[SinkTask]] = FileStreamSinkTask
