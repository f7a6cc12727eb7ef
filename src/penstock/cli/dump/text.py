"""How `penstock dump-log` writes a line: in the form of kafka-dump-log.sh, or as an object of JSON."""

from penstock.cli.terminal.lines import printable_json, say
from penstock.log.dump import DumpedBatch
from penstock.protocol.batch import BatchHeader
from penstock.protocol.records import Record
from penstock.protocol.value import Value

WITHOUT_COLON = ("SnapshotHeader", "SnapshotFooter", "KRaftVersion", "KRaftVoters")


class Line(Value):
    kind: str
    values: dict[str, object]


def print_line(line: Line, as_json: bool) -> None:
    if as_json:
        say(printable_json({"kind": line.kind} | line.values, default=str))
        return
    indent = "| " if line.kind == "record" else ""
    say(indent + " ".join(_named(name, value) for name, value in line.values.items()))


def batch_line(batch: DumpedBatch) -> Line:
    header = batch.header
    count = header.record_count
    return Line(
        "batch",
        {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
            "position": batch.position,
            _time_kind(header): header.max_timestamp,
            "size": header.size_in_bytes,
            "magic": header.magic,
            "compresscodec": _codec(header),
            "crc": header.crc,
            "isvalid": batch.is_valid,
        },
    )


def record_line(header: BatchHeader, index: int, record: Record, decoded: dict[str, object]) -> Line:
    values: dict[str, object] = {
        "offset": record.offset,
        _time_kind(header): record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": header.base_sequence + index if header.base_sequence >= 0 else -1,
        "headerKeys": [name for name, _ in record.headers],
    }
    return Line("record", values | decoded)


def _time_kind(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _codec(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except ValueError:
        return "unknown"


def _named(name: str, value: object) -> str:
    """Has the oddities of Kafka's tool that scripts may rely on."""
    if name == "deleteHorizonMs":
        return f"{name}: " + ("OptionalLong.empty" if value is None else f"OptionalLong[{value}]")
    return f"{name}{'' if name in WITHOUT_COLON else ':'} {_show(value)}"


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return printable_json(value, default=str, separators=(",", ":"))
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return "none" if value is None else str(value)
