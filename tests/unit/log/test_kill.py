"""A writer that is killed in full flight loses nothing that it has acknowledged."""

import subprocess
import sys
import threading
from pathlib import Path
from random import Random

from tests.unit.log.endless_writer import CONFIG, PRODUCER_ID
from tests.unit.log.logs import all_batches, append, batch, open_log

from penstock.log.config import LogConfig

ROOT = Path(__file__).resolve().parents[3]


def write_until_killed(path: Path, seed: int, lines: int) -> int:
    """Start a writer, kill it after so many acknowledgements; the last offset that it acknowledged."""
    command = [sys.executable, "-m", "tests.unit.log.endless_writer", str(path), str(seed)]
    with subprocess.Popen(
        command, cwd=ROOT, env={"PYTHONPATH": f"{ROOT}/src:{ROOT}"}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        last = ""
        for _ in range(lines):
            last = process.stdout.readline()
        process.kill()
        complete = process.stdout.read().split("\n")[:-1]
    return int(complete[-1] if complete else last)


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    for seed in range(1, 5):
        acknowledged = write_until_killed(tmp_path, seed, Random(seed).randrange(1, 400))
        log = open_log(tmp_path, CONFIG)
        batches = all_batches(log)
        assert batches[-1][1] >= acknowledged
        assert [first for first, _ in batches] == [0, *(last + 1 for _, last in batches[:-1])]
        producer = log.producers.get(PRODUCER_ID)
        assert producer is not None
        assert producer.last_sequence == batches[-1][1]
        assert log.leader_epochs.entries[-1][0] == seed
        log.abandon()


def test_flushes_in_a_thread_do_not_disturb_appends(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=100)
    log = open_log(tmp_path, config)
    is_over = threading.Event()
    failures: list[BaseException] = []

    def flush_on() -> None:
        try:
            while not is_over.is_set():
                log.flush()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=flush_on)
    thread.start()
    for number in range(500):
        append(log, batch(1 + number % 7), epoch=number // 20)
    is_over.set()
    thread.join()
    assert failures == []
    log.close()
    assert log.recovery_point == log.log_end_offset
    again = open_log(tmp_path, config, is_clean=True, recovery_point=log.recovery_point)
    assert len(all_batches(again)) == 500
    assert [epoch for epoch, _ in again.leader_epochs.entries] == list(range(25))
    for segment in again.segments:
        sizes = [
            entry[1] for entry in map(segment.indexes()[0].entries.entry, range(len(segment.indexes()[0].entries)))
        ]
        assert sizes == sorted(set(sizes))
