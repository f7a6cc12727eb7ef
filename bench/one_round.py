"""One round of compaction over a log, which stays as it is: called in a process of its own."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.log.compaction.cleaning import run_round
from penstock.log.compaction.compiled_keys import CompiledKeys
from penstock.log.compaction.keys import Keys
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.preparing import Buffers, look_at, prepare
from penstock.log.compaction.rounds import Summary
from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.names import CLEANED_SUFFIX
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.records import Record, encode_batch

KINDS: Final[dict[str, Callable[[int, float], Keys]]] = {"compiled": CompiledKeys, "plain": PlainKeys}


def one_round(directory: Path, kind: str) -> float:
    """How many MB were read in a second of the processor."""
    disk, now_ms = Disk(), int(time.time() * 1000)
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = PartitionLog(OpenFiles(disk, 10), Removals(disk), str(directory), "table", 0, config, is_clean=True)
    log.load()
    work, _ = prepare(log, look_at(log, log.log_end_offset, now_ms), Buffers(), now_ms)
    _warm(KINDS[kind](1 << 20, 0.9))
    keys = KINDS[kind](work.dedupe_bytes, work.load_factor)
    cpu_s = time.process_time()
    megabytes = sum(step.bytes_read for step in run_round(work, keys, disk) if isinstance(step, Summary)) / 1e6
    cpu_s = time.process_time() - cpu_s
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink()
    return megabytes / cpu_s


def _warm(keys: Keys) -> None:
    """Load the kernels, if there are some: that is not part of a round."""
    batch = memoryview(encode_batch([Record(0, 0, b"key", b"value")]))
    header = read_header(batch, 0)
    keys.index(batch[HEADER_SIZE:], header, 0)
    keys.keep(batch[HEADER_SIZE:], header, 0, drops_tombstones=False)
