"""Small text files that are replaced as a whole: offset checkpoints, leader epochs, partition metadata.

Kafka's layouts. An offset checkpoint is `0`, the number of entries, then `<topic> <partition> <offset>` per line; a
leader epoch checkpoint is the same with `<epoch> <start offset>`; `partition.metadata` is `version: 0` and
`topic_id: <22 characters>`.
"""

import uuid
from contextlib import suppress

from penstock.log.disk import Disk
from penstock.log.names import PARTITION_METADATA
from penstock.protocol.uuids import uuid_from_text, uuid_to_text

VERSION = "0"

TopicPartition = tuple[str, int]


class CorruptCheckpointError(ValueError):
    """The message names the file and the line."""


def _entries(text: str, path: str, fields: int) -> list[list[str]]:
    lines = text.splitlines()
    if not text.endswith("\n"):
        raise CorruptCheckpointError(f"{path} ends in the middle of a line")
    if len(lines) < 2 or lines[0].strip() != VERSION or not lines[1].strip().isdecimal():
        raise CorruptCheckpointError(f"{path} does not begin with the version {VERSION} and a count")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != int(lines[1]):
        raise CorruptCheckpointError(f"{path} announces {lines[1].strip()} entries and has {len(entries)}")
    for number, entry in enumerate(entries, start=3):
        if len(entry) != fields:
            raise CorruptCheckpointError(f"{path}, line {number}: {fields} fields are needed, there are {len(entry)}")
    return entries


def _numbers(texts: list[str], path: str) -> list[int]:
    try:
        return [int(text) for text in texts]
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CorruptCheckpointError(f"{path} is not text") from None


def encode_offsets(offsets: dict[TopicPartition, int]) -> bytes:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def decode_offsets(content: bytes, path: str) -> dict[TopicPartition, int]:
    """(topic, partition) -> offset; raises CorruptCheckpointError."""
    entries = _entries(_decode(content, path), path, fields=3)
    try:
        return {(topic, int(partition)): int(offset) for topic, partition, offset in entries}
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None


def encode_leader_epochs(epochs: list[tuple[int, int]]) -> bytes:
    lines = [f"{epoch} {start}\n" for epoch, start in epochs]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def decode_leader_epochs(content: bytes, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs in the file's order; raises CorruptCheckpointError."""
    pairs = (_numbers(entry, path) for entry in _entries(_decode(content, path), path, fields=2))
    return [(epoch, start) for epoch, start in pairs]


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Empty if there is no file. Raises CorruptCheckpointError."""
    content = disk.read_file(path)
    return {} if content is None else decode_offsets(content, path)


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


_BEFORE_TOPIC_ID = f"version: {VERSION}\ntopic_id: ".encode()
_TOPIC_ID_CHARACTERS = 22


def decode_partition_metadata(content: bytes, path: str) -> uuid.UUID:
    """Raises CorruptCheckpointError."""
    if content.startswith(_BEFORE_TOPIC_ID) and len(content) == len(_BEFORE_TOPIC_ID) + _TOPIC_ID_CHARACTERS:
        with suppress(ValueError):  # as all files have it; a start reads one of each partition
            return uuid_from_text(content[len(_BEFORE_TOPIC_ID) :].decode("ascii"))
    pairs = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in _decode(content, path).splitlines())
    }
    if pairs.get("version") != VERSION or "topic_id" not in pairs:
        raise CorruptCheckpointError(f"{path} lacks version {VERSION} or a topic_id")
    try:
        return uuid_from_text(pairs["topic_id"])
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None


def read_topic_id(disk: Disk, directory: str) -> uuid.UUID | None:
    """None if the file is missing or damaged. Raises OSError."""
    path = f"{directory}/{PARTITION_METADATA}"
    content = disk.read_file(path)
    try:
        return None if content is None else decode_partition_metadata(content, path)
    except CorruptCheckpointError:
        return None
