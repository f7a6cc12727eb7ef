"""Lines of a text file as records, as Kafka's FileStreamSource: what is appended later comes later.

A line counts when its end is there. The offset is the position in the file, in bytes.
"""

from collections.abc import Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import ClassVar

from penstock.work.connect.api import Changes, SourceConnector, SourceContext, SourceRecord, SourceTask, Support
from penstock.work.connect.config import ConfigKey, parse

KEYS = (
    ConfigKey("file", required=True, documentation="the file to read", importance="high"),
    ConfigKey("topic", required=True, documentation="the topic to write to", importance="high"),
    ConfigKey("batch.size", "int", 2_000, "The most lines that are taken at once.", least=1),
)
_STRING = {"type": "string", "optional": False}


class FileStreamSourceTask(SourceTask):
    _file: BufferedReader | None = None

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self._settings = parse(KEYS, config)
        self._partition = {"filename": self._settings["file"]}
        stored = context.offset(self._partition)
        self._position = int(stored["position"]) if stored else 0

    def poll(self) -> Sequence[SourceRecord]:
        """A file that does not exist yet has no records."""
        if self._file is None and not self._open():
            return []
        assert self._file is not None
        records: list[SourceRecord] = []
        while len(records) < self._settings["batch.size"]:
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(self._position)
                break
            self._position += len(line)
            records.append(
                SourceRecord(
                    topic=self._settings["topic"],
                    value=line.rstrip(b"\r\n").decode("utf-8", "replace"),
                    value_schema=_STRING,
                    source_partition=self._partition,
                    source_offset={"position": self._position},
                )
            )
        return records

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> bool:
        try:
            self._file = Path(self._settings["file"]).open("rb")  # noqa: SIM115 - it stays open until stop
        except FileNotFoundError:
            return False
        self._file.seek(self._position)
        return True


class FileStreamSourceConnector(SourceConnector):
    """One task, for a file has one end."""

    config_keys = KEYS

    def exactly_once_support(self, config: Mapping[str, str]) -> Support:
        return Support.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Changes) -> None:
        """Anything may be forgotten."""
        for partition, offset in offsets:
            if offset is None:
                continue
            position = offset.get("position")
            if not isinstance(partition.get("filename"), str) or type(position) is not int or position < 0:
                raise ValueError(
                    "a partition is {filename: text}, and its offset {position: number of bytes}; not so "
                    f"{partition!r}, {offset!r}"
                )

    task_class: ClassVar[type[SourceTask]] = FileStreamSourceTask
