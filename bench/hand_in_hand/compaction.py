"""Both systems compact copies of the same log: what is left must be the same records, in batches that say the same.

The log has keys that come again, batches of several keys in every codec, tombstones, an idempotent producer, and a
partition without records. A first round keeps tombstones and gives them their horizon, a second one drops them. In the
end Kafka's dump and its console consumer read what Penstock has compacted.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.hand_in_hand import clients
from bench.hand_in_hand.changing_hands import CLUSTER_ID, single_node
from bench.hand_in_hand.kafkas_tools import TOOLS
from bench.hand_in_hand.node import HEAP, KAFKA, PENSTOCK, HandError, Node, wait_until
from bench.versus.maven import Artifact, fetch, java
from penstock.log.checkpoint import CorruptCheckpointError, read_offsets
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_OFFSETS, LOG_SUFFIX
from penstock.protocol.records import iterate_batches, iterate_records

TOPIC: Final = "table"
RECORDS: Final = 6000
KEYS: Final = 300
SEGMENT_BYTES: Final = 1 << 20
TOMBSTONES_MS: Final = 1000
NEVER, ALWAYS = "1.0", "0.0"
"""Shares of a log that must be dirty."""
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "delete.retention.ms": str(TOMBSTONES_MS),
    "min.cleanable.dirty.ratio": NEVER,
}
DUMP: Final = (
    # The newest release that brings it.
    Artifact("org.apache.kafka", "kafka_2.13", "4.1.1"),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
)
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def compare_compaction(folder: Path, say: Callable[[str], None]) -> None:
    """See the module. Raises HandError."""
    writer, address = single_node(folder / "written", {"log.cleaner.backoff.ms": "200"})
    writer.format(PENSTOCK, CLUSTER_ID)
    writer.start(PENSTOCK)
    try:
        wait_until("penstock serves", lambda: clients.is_up(address), [writer])
        admin = AdminClient({"bootstrap.servers": address})  # its futures end with it
        admin.create_topics([NewTopic(TOPIC, 3, 1, config=SETTINGS)])[TOPIC].result(clients.LIMIT_S)
        _write(address)
    finally:
        writer.stop()
    written = {index: list(_batches(writer.data / f"{TOPIC}-{index}")) for index in range(3)}
    left = {system: _compact(folder, writer, system, say) for system in (KAFKA, PENSTOCK)}
    for round_number in range(2):
        for index in range(3):
            theirs, ours = (left[system][round_number][index] for system in (KAFKA, PENSTOCK))
            if theirs != ours:
                different = [pair for pair in zip(theirs, ours, strict=False) if pair[0] != pair[1]]
                raise HandError(
                    f"round {round_number + 1} of {TOPIC}-{index}: {len(theirs)} batches in Kafka, {len(ours)} in"
                    f" Penstock, of which differ {different[:1]}"
                )
        count = sum(len(records) for batches in left[KAFKA][round_number].values() for _, records in batches)
        before = sum(len(records) for batches in written.values() for _, records in batches)
        say(f"round {round_number + 1}: {count} of {before} records are left, the same ones in both")
    _let_kafka_dump(folder / PENSTOCK / "data" / f"{TOPIC}-0")
    say("Kafka's dump reads what Penstock has compacted")
    count = _let_kafka_consume(folder / PENSTOCK)
    say(f"Kafka's console consumer gets all {count} records of it, and nothing else")


def _write(address: str) -> None:
    lots = random.Random(4)
    failed: list[object] = []
    for start in range(0, RECORDS, RECORDS // 20):
        codec = CODECS[start // (RECORDS // 20) % len(CODECS)]
        settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20, "batch.size": 20_000}
        producer = Producer(settings | {"enable.idempotence": start % 2 == 0})
        for _ in range(RECORDS // 20):
            value = None if lots.random() < 0.1 else lots.randbytes(lots.randrange(2000))
            producer.produce(
                TOPIC,
                value,
                b"key-%d" % lots.randrange(KEYS),
                partition=lots.randrange(2),
                headers=[("h", b"1")],
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        if producer.flush(clients.LIMIT_S) or failed:
            raise HandError(f"not all records were acknowledged: {failed[:1]}")


def _compact(folder: Path, writer: Node, system: str, say: Callable[[str], None]) -> list[dict[int, list[Any]]]:
    """What is left of a copy after each round, by partition: of the log as it was, without the filler behind it."""
    node, address = single_node(folder / system, {"log.cleaner.backoff.ms": "200"})
    node.data.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(writer.data, node.data)
    ends = {index: _end(writer.data / f"{TOPIC}-{index}") for index in range(3)}
    rounds = []
    for number in range(2):
        node.start(system)
        try:
            wait_until(f"{system} serves", lambda: clients.is_up(address), [node])
            if number:
                time.sleep(TOMBSTONES_MS / 1000)
            _fill(address)
            wanted = {(TOPIC, index): _active(node.data / f"{TOPIC}-{index}") for index in (0, 1)}
            began_s = time.monotonic()
            _let_clean(address, ALWAYS)
            wait_until(f"{system} compacts", partial(_is_clean, node.data, wanted), [node])
            say(f"{system}: round {number + 1} took {time.monotonic() - began_s:.1f} s")
            _let_clean(address, NEVER)
        finally:
            node.stop()
        rounds.append({index: list(_batches(node.data / f"{TOPIC}-{index}", ends[index])) for index in range(3)})
    return rounds


def _fill(address: str) -> None:
    """Enough behind the log that all of it is sealed."""
    producer = Producer({"bootstrap.servers": address})
    for number in range(SEGMENT_BYTES // 10_000 + 20):
        for partition in (0, 1):
            producer.produce(TOPIC, bytes(10_000), b"filler-%d" % number, partition=partition)
    if producer.flush(clients.LIMIT_S):
        raise HandError("not all of the filler was acknowledged")


def _let_clean(address: str, ratio: str) -> None:
    entry = ConfigEntry("min.cleanable.dirty.ratio", ratio, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(clients.LIMIT_S)


def _is_clean(data: Path, wanted: dict[tuple[str, int], int]) -> bool:
    try:
        found = read_offsets(Disk(), f"{data}/{CLEANED_OFFSETS}")
    except CorruptCheckpointError:  # Kafka begins with a file that is empty
        return False
    return all(found.get(key, 0) >= offset for key, offset in wanted.items())


def _segments(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.endswith(LOG_SUFFIX))


def _active(directory: Path) -> int:
    names = [path.name for path in _segments(directory)]
    return int(names[-1].removesuffix(LOG_SUFFIX)) if names else 0


def _end(directory: Path) -> int:
    return max((int(said[1]) + 1 for said, _ in _batches(directory)), default=0)


def _batches(directory: Path, end: int = 1 << 62) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """What the batches below an offset say, and their records; not where they lie and what their horizon is."""
    for segment in _segments(directory):
        content = segment.read_bytes()
        for position, header in iterate_batches(content):
            if header.base_offset >= end or not header.record_count:
                continue
            said = (
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.attributes,
                header.max_timestamp,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
            )
            yield (
                said,
                [
                    (one.offset, one.timestamp_ms, one.key, one.value, one.headers)
                    for one in iterate_records(content, position, header)
                ],
            )


def _let_kafka_consume(folder: Path) -> int:
    """Let Kafka's console consumer read a partition from its beginning; how many records it has."""
    node, address = single_node(folder)
    directory = node.data / f"{TOPIC}-0"
    expected = [(offset, key) for _, records in _batches(directory) for offset, _, key, _, _ in records]
    jars = os.pathsep.join(str(jar) for jar in fetch("kafka-tools", TOOLS))
    program = [java(), *HEAP, "-cp", jars, "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    shown = [word for one in ("offset=true", "key=true", "value=false") for word in ("--property", f"print.{one}")]
    place = ["--topic", TOPIC, "--partition", "0", "--offset", "earliest", "--timeout-ms", "20000"]
    node.start(PENSTOCK)
    try:
        wait_until("penstock serves", lambda: clients.is_up(address), [node])
        done = subprocess.run([*program, "--bootstrap-server", address, *place, *shown], capture_output=True, text=True)
    finally:
        node.stop()
    found = [line.removeprefix("Offset:").split("\t") for line in done.stdout.splitlines() if "Offset:" in line]
    if [(int(offset), key.encode()) for offset, key in found] != expected:
        raise HandError(f"{len(found)} of {len(expected)} records came: {found[:3]} {done.stderr[-500:]}")
    return len(found)


def _let_kafka_dump(directory: Path) -> None:
    files = ",".join(str(path) for path in _segments(directory))
    jars = os.pathsep.join(str(jar) for jar in fetch("kafka-dump", DUMP))
    program = [java(), *HEAP, "-cp", jars, "kafka.tools.DumpLogSegments"]
    words = ["--deep-iteration", "--print-data-log", "--files", files]
    done = subprocess.run([*program, *words], capture_output=True, text=True)
    if done.returncode or "isvalid: false" in done.stdout or "offset: " not in done.stdout:
        raise HandError(f"Kafka's dump does not read {files}: {done.stdout[-500:]}{done.stderr[-500:]}")
