"""faust and quixstreams, as published, build their state anew from its changelog after the local one was deleted.

Each counts words, loses its local state, and counts on: the totals are those of all words, although the second life
saw the last ones only. What the changelog takes in the end is held against what is alive in it. An environment of its
own has the two, from the package index.
"""

import json
import os
import random
import shutil
import subprocess
import time
import venv
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench.hand_in_hand.node import LIMIT_S, HandError, Say, produce_all, wait_until
from bench.process import said_by
from bench.topics import batches, cleaned_to, create_topic, segments
from penstock.protocol.records import encode_batch
from penstock.testing import Cluster

PACKAGES: Final = ("faust-streaming==0.15.3", "quixstreams==3.28.1")
WORDS: Final = "words"
KEYS: Final = tuple(f"k{number:04d}" for number in range(1000))
FIRST, SECOND = 8000, 2000
ROLL_S: Final = 2.0
DIRTY: Final = 0.3
"""The share of a log that may be dirty. With the default of a half a log that is twice as large is clean enough."""
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": str(DIRTY),
    "log.roll.ms": str(int(ROLL_S * 1000)),
}
MOST: Final = 2.0
"""As a multiple of the live data."""
AMISS: Final = 1
"""Words that may be counted twice, and that may be left out: what faust's stream does now and then in one batch."""


def rebuild_from_changelogs(folder: Path, say: Say) -> None:
    python = _environment()
    for library in ("faust", "quixstreams"):
        with Cluster(process=True, config=SETTINGS) as cluster:
            create_topic(cluster.bootstrap_servers, WORDS)
            _count(cluster, python, library, folder / library, say)
            size, alive = _settled(cluster)
        say(f"{library}: the changelog takes {size} bytes, of which {alive} are alive")
        if size > MOST * alive:
            raise HandError(f"{library}: that is more than {MOST:g} times as much")


def _environment() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "changelogs"
    python, done = folder / "bin" / "python", folder / "done"
    if not done.exists() or done.read_text() != str(PACKAGES):
        venv.create(folder, clear=True, with_pip=True)
        said_by([str(python), "-m", "pip", "install", "-q", *PACKAGES])
        done.write_text(str(PACKAGES))
    return python


def _count(cluster: Cluster, python: Path, library: str, folder: Path, say: Say) -> None:
    lots, expected, total = random.Random(1), Counter[str](), 0
    for words in (lots.choices(KEYS, k=FIRST), [*KEYS, *lots.choices(KEYS, k=SECOND - len(KEYS))]):
        total += len(words)
        produce_all(cluster.bootstrap_servers, WORDS, [(word.encode(), b"1") for word in words])
        found = _live(cluster, python, library, folder, (total, len(words)))
        seen, sent = Counter(found["seen"]), Counter(words)
        expected.update(seen)
        wrong = {key: count for key, count in found["totals"].items() if count != expected[key]}
        amiss = max((seen - sent).total(), (sent - seen).total())
        if wrong or amiss > AMISS or not seen.keys() <= found["totals"].keys():
            shutil.copytree(cluster.nodes[0].directory, folder.with_suffix(".node"))
            raise HandError(f"{library} saw {seen.total()} words of {len(words)}; these totals are wrong: {wrong}")
        say(f"{library}: without local state, {seen.total()} words were seen, the totals of {total} are right")


def _live(cluster: Cluster, python: Path, library: str, folder: Path, counts: tuple[int, int]) -> Any:
    """The final count of a life that begins without local state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program, report = Path(__file__).with_name(f"count_with_{library}.py"), folder.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = [*map(str, (python, program, cluster.bootstrap_servers, folder, *counts, report))]
    said = folder.with_suffix(".log")
    with said.open("a") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT_S)
    if not report.exists():
        raise HandError(f"{library} ended without a result: {said.read_text()[-3000:]}")
    return json.loads(report.read_text())


def _settled(cluster: Cluster) -> tuple[int, int]:
    """(bytes of the changelog, bytes of its last records by key in their batches) once rounds change nothing."""
    (changelog,) = (path for path in Path(cluster.nodes[0].directory).rglob("*changelog*-0") if path.is_dir())
    written = [list(records) for _, records in batches(changelog)]
    last = {record.key: record for batch in written for record in batch if record.value is not None}
    offsets = {record.offset for record in last.values()}
    kept = ([record for record in batch if record.offset in offsets] for batch in written)
    alive = sum(len(encode_batch(records)) for records in kept if records)
    time.sleep(ROLL_S)
    one, topic = next(iter(last.values())), changelog.name.removesuffix("-0")
    produce_all(cluster.bootstrap_servers, topic, [(one.key, one.value)], headers=[*one.headers])  # closes the segment
    wait_until(f"{changelog.name} is compacted", lambda: _dirty_share(changelog) <= DIRTY, (), LIMIT_S)
    return sum(path.stat().st_size for path in segments(changelog)), alive


def _dirty_share(changelog: Path) -> float:
    """Of the closed segments, the bytes of those that are not compacted."""
    begin = cleaned_to(changelog)
    *sizes, _ = ((int(path.stem), path.stat().st_size) for path in segments(changelog))
    return sum(size for base_offset, size in sizes if base_offset >= begin) / sum(size for _, size in sizes)
