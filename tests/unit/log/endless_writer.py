"""Run as a process of its own, to be killed: appends to a log and prints each last offset that was acknowledged."""

import sys
from pathlib import Path
from random import Random

from tests.unit.log.logs import NOW, batch, open_log

from penstock.log.config import LogConfig

CONFIG = LogConfig(segment_bytes=8_000, index_interval_bytes=200, retention_ms=-1)
PRODUCER_ID = 3


def main(path: Path, seed: int) -> None:
    """Append batches of one idempotent producer, go on from its last sequence, roll often, flush sometimes."""
    random = Random(seed)
    log = open_log(path, CONFIG)
    producer = log.producers.get(PRODUCER_ID)
    sequence = producer.last_sequence + 1 if producer else 0
    while True:
        count = random.randrange(1, 20)
        sent = batch(count, value=b"v" * random.randrange(300), producer=(PRODUCER_ID, 0, sequence))
        result = log.append_as_leader(sent, leader_epoch=seed, now_ms=NOW)
        assert not result.is_duplicate
        sequence += count
        print(result.last_offset, flush=True)
        if random.random() < 0.05:
            log.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
