"""How `penstock consume` writes records: `--formatter` by the names of Kafka's classes, or one's own `module:name`."""

import importlib
import logging
import struct
from collections.abc import Callable
from typing import Final, cast

import click

from penstock.cli.dump.records import as_dictionary
from penstock.cli.records.lines import RecordFormat
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import printable_json
from penstock.client.values import ConsumedRecord
from penstock.coordinator.group.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, parse_versions

Formatter = Callable[[ConsumedRecord], bytes]
_VERSION: Final = struct.Struct(">h")
logger = logging.getLogger(__name__)


def formatter(name: str | None, record_format: RecordFormat) -> Formatter:
    """UsageError for an unknown name."""
    if name is None:
        return record_format.format
    if ":" in name:
        return _own(name)
    known: dict[str, Formatter] = {
        "DefaultMessageFormatter": record_format.format,
        "NoOpMessageFormatter": lambda record: b"",
        "OffsetsMessageFormatter": lambda record: _of_coordinator(record, OffsetCommitKey, OffsetCommitValue),
        "GroupMetadataMessageFormatter": lambda record: _of_coordinator(record, GroupMetadataKey, GroupMetadataValue),
        "LoggingMessageFormatter": lambda record: _logged(record, record_format),
    }
    found = known.get(name.rpartition(".")[2])
    if found is None:
        names = ", ".join(known)
        raise click.UsageError(f"--formatter: {name} is not known: known are {names}, and your own as module:function")
    return found


def _own(name: str) -> Formatter:
    module_name, _, attribute = name.partition(":")
    with wrong_usage(ImportError, AttributeError, of=f"--formatter {name}"):
        return cast("Formatter", getattr(importlib.import_module(module_name), attribute))


def _logged(record: ConsumedRecord, record_format: RecordFormat) -> bytes:
    line = record_format.format(record)
    logger.info("%s", line.decode(errors="replace").rstrip())
    return line


def _of_coordinator(record: ConsumedRecord, key_class: type[Message], value_class: type[Message]) -> bytes:
    """A record of __consumer_offsets as a line of JSON; empty for one of another kind."""
    if record.key is None or len(record.key) < _VERSION.size:
        return b""
    (kind,) = _VERSION.unpack_from(record.key)
    if kind not in parse_versions(key_class.__versions__):
        return b""
    try:
        document = {"key": {"type": kind, "data": _data(key_class, record.key)}, "value": None}
        if record.value is not None:
            (version,) = _VERSION.unpack_from(record.value)
            document["value"] = {"version": version, "data": _data(value_class, record.value)}
    except (DecodeError, struct.error) as error:
        raise ValueError(f"no record of __consumer_offsets: {error}") from None
    return printable_json(document, separators=(",", ":")).encode() + b"\n"


def _data(layout: type[Message], data: bytes) -> dict[str, object]:
    (version,) = _VERSION.unpack_from(data)
    message, _ = decode(layout, version, data, _VERSION.size)
    return as_dictionary(message, version)
