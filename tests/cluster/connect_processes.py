"""Workers as processes that share connectors, and what is asked of them."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.started import environment

SECONDS = 60
SESSION_MS = 3_000
BROKER = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}


def worker_file(folder: Path, bootstrap_servers: str, session_ms: int = SESSION_MS) -> Path:
    """The configuration of workers that notice soon that one is gone."""
    config = folder / "worker.properties"
    stores = "".join(
        f"{store}.storage.topic=connect-{store}\n{store}.storage.replication.factor=1\n"
        for store in ("config", "offset", "status")
    )
    config.write_text(
        f"bootstrap.servers={bootstrap_servers}\ngroup.id=connect\n{stores}"
        f"session.timeout.ms={session_ms}\nheartbeat.interval.ms=300\noffset.flush.interval.ms=50\n"
        "value.converter=StringConverter\nlisteners=http://127.0.0.1:0\n"
    )
    return config


@contextmanager
def a_worker(config: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`penstock worker FILE`, and where its REST interface is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "worker", str(config)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "REST at " in line, line
        yield process, line.rpartition("REST at ")[2].strip()
    finally:
        process.kill()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def ask(verb: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=verb)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def is_healthy(url: str) -> bool | None:
    """Whether it is a member; None as long as it starts."""
    try:
        return bool(ask("GET", f"{url}/health")["status"] == "healthy") or None
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return None
