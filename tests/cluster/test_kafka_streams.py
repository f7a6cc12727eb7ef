"""Kafka Streams itself counts words by the streams protocol (KIP-1071), while an instance is killed and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from bench.topics import create_topic
from bench.versus.kafka import MissingToolError, fetch, java
from tests.java.kills import PARTITIONS
from tests.java.streams import QUICK_GROUPS, Words
from tests.wire.test_cli import penstock

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PROGRAM: Final = Path(__file__).parents[1] / "java" / "WordCount.java"
SECONDS: Final = 240.0
LINES: Final = 600


@contextmanager
def an_instance(directory: Path, name: str, servers: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the application; it is killed at the end, if it is there still."""
    jars = os.pathsep.join(map(str, fetch("kafka-streams")))
    options = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    settings = (f"bootstrap.servers={servers}", f"state.dir={directory / name}", f"application.server={name}:80")
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen([java(), *options, "-cp", jars, str(PROGRAM), *settings], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.soak
def test_each_word_is_counted_once_though_an_instance_is_killed(tmp_path: Path) -> None:
    try:
        fetch("kafka-streams")
        java()
    except MissingToolError as error:
        pytest.skip(str(error))
    with Cluster(config=QUICK_GROUPS) as cluster, ExitStack() as stack:
        servers = cluster.bootstrap_servers
        at = ("--bootstrap-server", servers)
        for topic in ("lines", "counts"):
            create_topic(servers, topic, PARTITIONS)
        words = Words(servers)

        def more_is_counted(what: str) -> None:
            words.send(LINES)
            wait_until(lambda: words.read() >= words.sent.total() or None, SECONDS, what)

        mortal = stack.enter_context(an_instance(tmp_path, "mortal", servers))
        stack.enter_context(an_instance(tmp_path, "other", servers))
        more_is_counted("the first counts")
        words.send(LINES)
        mortal.send_signal(signal.SIGKILL)
        more_is_counted("counts of the one that lives")
        back = stack.enter_context(an_instance(tmp_path, "mortal", servers))
        more_is_counted("counts of both")
        wait_until(lambda: _runs_at(4, *at) or None, SECONDS, "all tasks at four members")
        assert "KSTREAM-SOURCE" in penstock("groups", "--describe", "--topology", "--group", "wordcount", *at).stdout
        back.terminate()
        assert back.wait(SECONDS) == 128 + signal.SIGTERM
        wait_until(lambda: _runs_at(2, *at) or None, SECONDS, "all tasks at the two members that are left")
        words.finish()


def _runs_at(members: int, *at: str) -> bool:
    """Whether the group is stable with so many members."""
    state = penstock("groups", "--describe", "--state", "--group", "wordcount", *at).stdout
    return "Stable" in state and str(members) in state.splitlines()[-1].split()
