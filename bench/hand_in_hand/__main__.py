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
from tests.java.scenarios import PROGRAMS

from bench.hand_in_hand.changelogs import rebuild_from_changelogs
from bench.hand_in_hand.changing_hands import RELEASES, change_hands, mix
from bench.hand_in_hand.compaction import compare_compaction
from bench.hand_in_hand.java_clients import hand_over_under_java_clients
from bench.hand_in_hand.java_workers import run_java_workers
from bench.hand_in_hand.kafkas_tools import come_as_users, try_kafkas_tools, work_on_consensus_topic
from bench.hand_in_hand.mirror import mirror_a_cluster
from bench.hand_in_hand.node import HandError
from bench.measure import asked
from bench.process import CommandError
from bench.versus.kafka import MissingToolError
from bench.versus.systems import KAFKA, PENSTOCK

FOUNDERS = (KAFKA, PENSTOCK)
FIRST_AND_LAST = (RELEASES[0], RELEASES[-1])
SCENARIOS: dict[str, Callable[..., None]] = {
    **{f"directory-{by}-{at}": partial(change_hands, founder=by, release=at) for at in RELEASES for by in FOUNDERS},
    **{f"quorum-{by}-{at}": partial(mix, founder=by, release=at) for at in FIRST_AND_LAST for by in FOUNDERS},
    "compaction": compare_compaction,
    "changelogs": rebuild_from_changelogs,
    "tools": try_kafkas_tools,
    "secured": come_as_users,
    "connect": run_java_workers,
    "connect-secured": partial(run_java_workers, secure=True),
    "mirror": mirror_a_cluster,
    "consensus": work_on_consensus_topic,
    "hand-over": hand_over_under_java_clients,
    **PROGRAMS,
}


def main() -> None:
    """In turn; a scenario fails by an exception, and its folder stays."""
    faulthandler.enable()  # clients in C run in this process
    failed = 0
    for name in asked(argparse.ArgumentParser(prog="python -m bench.hand_in_hand"), "name", SCENARIOS).names:
        print(name, flush=True)
        folder = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
        try:
            SCENARIOS[name](folder, say=lambda line: print(f"  {line}", flush=True))
        except MissingToolError as error:
            print(f"  skipped: {error}", flush=True)
        except (HandError, CommandError, KafkaException) as error:
            failed += 1
            print(f"  FAILED, in {folder}: {error}", flush=True)
        else:
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
