"""Both systems compact copies of the same log: what is left must be the same records, in equal batches.

The log has keys that come again, batches of several keys in every codec, tombstones, an idempotent producer, and a
partition without records. A first round keeps tombstones and gives them their horizon, a second one drops them. In the
end Kafka's dump and its console consumer read what Penstock has compacted.
"""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.compaction import ALWAYS, DIRTY_SHARE, NEVER
from bench.hand_in_hand.node import HEAP, HandError, Node, Say, produce_all, single_node, wait_until
from bench.process import said_by
from bench.topics import active_offset, batches, cleaned_to, create_topic, segments, set_config
from bench.versus.kafka import java_command
from bench.versus.systems import KAFKA, PENSTOCK
from penstock.protocol.batch import BatchHeader

TOPIC: Final = "table"
RECORDS: Final = 6000
KEYS: Final = 300
SEGMENT_BYTES: Final = 1 << 20
TOMBSTONES_MS: Final = 1000
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "delete.retention.ms": str(TOMBSTONES_MS),
    DIRTY_SHARE: NEVER,
}
BACKOFF: Final = {"log.cleaner.backoff.ms": "200"}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
Batches = list[tuple[BatchHeader, list[Any]]]


def compare_compaction(folder: Path, say: Say) -> None:
    writer, address = single_node(folder / "written", BACKOFF)
    writer.format(PENSTOCK)
    with writer.serving(PENSTOCK, address):
        create_topic(address, TOPIC, 3, config=SETTINGS)
        _write(address)
    before = sum(len(records) for index in range(3) for _, records in _batches(writer.data / f"{TOPIC}-{index}"))
    left = {system: _compact(folder, writer, system) for system in (KAFKA, PENSTOCK)}
    for number, (theirs, ours) in enumerate(zip(left[KAFKA], left[PENSTOCK], strict=True), start=1):
        for index in range(3):
            if theirs[index] != ours[index]:
                pairs = zip(theirs[index], ours[index], strict=False)
                raise HandError(
                    f"round {number} of {TOPIC}-{index}: {len(theirs[index])} batches in Kafka, {len(ours[index])} in"
                    f" Penstock, of which differ {[pair for pair in pairs if pair[0] != pair[1]][:1]}"
                )
        count = sum(len(records) for found in theirs.values() for _, records in found)
        say(f"round {number}: {count} of {before} records are left, the same ones in both")
    _let_kafka_dump(folder / PENSTOCK / "data" / f"{TOPIC}-0")
    say("Kafka's dump reads what Penstock has compacted")
    count = _let_kafka_consume(folder / PENSTOCK)
    say(f"Kafka's console consumer gets all {count} records of it, and nothing else")


def _write(address: str) -> None:
    lots = random.Random(4)
    for number in range(20):
        codec = CODECS[number % len(CODECS)]
        batch: dict[str, str | int | bool] = {"compression.type": codec, "linger.ms": 20, "batch.size": 20_000}
        settings = batch | {"enable.idempotence": number % 2 == 0}
        records = [
            (b"key-%d" % lots.randrange(KEYS), None if lots.random() < 0.1 else lots.randbytes(lots.randrange(2000)))
            for _ in range(RECORDS // 20)
        ]
        produce_all(address, TOPIC, records, settings, partitions=2, headers=[("h", b"1")])


def _compact(folder: Path, writer: Node, system: str) -> list[dict[int, Batches]]:
    """A copy's remaining batches after each round, by partition: of the log as it was, without the filler behind it."""
    node, address = single_node(folder / system, BACKOFF)
    shutil.copytree(writer.data, node.data)
    written = [_batches(writer.data / f"{TOPIC}-{index}") for index in range(3)]
    ends = [max((header.last_offset + 1 for header, _ in found), default=0) for found in written]
    logs = [node.data / f"{TOPIC}-{index}" for index in range(3)]
    filler = [(b"filler-%d" % (number // 2), bytes(10_000)) for number in range(2 * (SEGMENT_BYTES // 10_000 + 20))]
    rounds = []
    for number in range(2):
        with node.serving(system, address):
            if number:
                time.sleep(TOMBSTONES_MS / 1000)
            produce_all(address, TOPIC, filler, partitions=2)  # enough to seal all of the log
            wanted = {log: active_offset(log) for log in logs[:2]}
            set_config(address, TOPIC, DIRTY_SHARE, ALWAYS)
            wait_until(f"{system} compacts", partial(_is_clean, wanted), [node])
            set_config(address, TOPIC, DIRTY_SHARE, NEVER)
        rounds.append({index: list(_batches(log, ends[index])) for index, log in enumerate(logs)})
    return rounds


def _is_clean(wanted: dict[Path, int]) -> bool:
    return all(cleaned_to(log) >= end for log, end in wanted.items())


def _batches(directory: Path, end: int = 1 << 62) -> Iterator[tuple[BatchHeader, list[Any]]]:
    """Headers without their place and their horizon."""
    for header, records in batches(directory):
        if header.base_offset < end and header.record_count:
            said = header._replace(batch_length=0, crc=0, base_timestamp=0)
            yield said, [(one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in records]


def _let_kafka_consume(folder: Path) -> int:
    node, address = single_node(folder)
    expected = [(offset, key) for _, records in _batches(node.data / f"{TOPIC}-0") for offset, _, key, _, _ in records]
    program = java_command("kafka-tools", "org.apache.kafka.tools.consumer.ConsoleConsumer", *HEAP)
    shown = [word for one in ("offset=true", "key=true", "value=false") for word in ("--property", f"print.{one}")]
    place = ["--topic", TOPIC, "--partition", "0", "--offset", "earliest", "--timeout-ms", "20000"]
    with node.serving(PENSTOCK, address):
        done = subprocess.run([*program, "--bootstrap-server", address, *place, *shown], capture_output=True, text=True)
    found = [line.removeprefix("Offset:").split("\t") for line in done.stdout.splitlines() if "Offset:" in line]
    if [(int(offset), key.encode()) for offset, key in found] != expected:
        raise HandError(f"{len(found)} of {len(expected)} records came: {found[:3]} {done.stderr[-500:]}")
    return len(found)


def _let_kafka_dump(directory: Path) -> None:
    files = ",".join(map(str, segments(directory)))
    program = java_command("kafka-all-tools", "kafka.tools.DumpLogSegments", *HEAP)
    dumped = said_by([*program, "--deep-iteration", "--print-data-log", "--files", files])
    if "isvalid: false" in dumped or "offset: " not in dumped:
        raise HandError(f"Kafka's dump does not read {files}: {dumped[-500:]}")
