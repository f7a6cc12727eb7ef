"""`python -m bench.hand_in_hand [NAME …]`: every scenario or the named ones; the exit code is 1 if one fails."""

import argparse
import faulthandler
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from bench.hand_in_hand.changelogs import rebuild_from_changelogs
from bench.hand_in_hand.changing_hands import RELEASES, change_hands
from bench.hand_in_hand.compaction import compare_compaction
from bench.hand_in_hand.consensus import work_on_consensus_topic
from bench.hand_in_hand.hand_over import hand_over_under_java_clients
from bench.hand_in_hand.java_workers import run_java_workers
from bench.hand_in_hand.kafkas_tools import try_kafkas_tools
from bench.hand_in_hand.mixed_quorum import mix
from bench.hand_in_hand.node import KAFKA, PENSTOCK, HandError

Scenario = Callable[..., None]


def scenarios() -> dict[str, Scenario]:
    """All scenarios by name."""
    found: dict[str, Scenario] = {}
    for release in RELEASES:
        for founder in (KAFKA, PENSTOCK):
            found[f"directory-{founder}-{release}"] = partial(change_hands, founder=founder, release=release)
    for release in (RELEASES[0], RELEASES[-1]):
        for founder in (KAFKA, PENSTOCK):
            found[f"quorum-{founder}-{release}"] = partial(mix, founder=founder, release=release)
    found["compaction"] = compare_compaction
    found["changelogs"] = rebuild_from_changelogs
    found["tools"] = try_kafkas_tools
    found["connect"] = run_java_workers
    found["consensus"] = work_on_consensus_topic
    found["hand-over"] = hand_over_under_java_clients
    return found


def main() -> None:
    """Run them one after the other; the folder of one that fails stays."""
    faulthandler.enable()  # clients in C run in this process
    known = scenarios()
    parser = argparse.ArgumentParser(prog="python -m bench.hand_in_hand")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(known)} (all)")
    names = parser.parse_args().names or list(known)
    failed = 0
    for name in names:
        print(name, flush=True)
        folder = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
        try:
            known[name](folder, say=lambda line: print(f"  {line}", flush=True))
        except (HandError, KafkaException) as error:
            failed += 1
            print(f"  FAILED, in {folder}: {error}", flush=True)
        else:
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
