"""The programs of docs/counting-once.md are killed at each step between their records and their database."""

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, blocks
from tests.docs.test_examples import ENVIRONMENT

from penstock.client.producer import Producer
from penstock.testing import Cluster

WORDS = [word for number in range(40) for word in ("one", "two", "two", f"word-{number % 7}")]
STEPS = {"totals.py": range(1, 28, 4), "recipe.py": range(2, 16, 5)}
EVERY_STEP = {name: range(1, 41) for name in STEPS}
PATIENCE_S = 60


def totals(directory: Path) -> dict[str, int]:
    with closing(sqlite3.connect(directory / "totals.db")) as database:
        try:
            return dict(database.execute("SELECT word, count FROM totals"))
        except sqlite3.OperationalError:  # it was killed before it had made its table
            return {}


async def counted(name: str, steps: range, directory: Path) -> None:
    (code,) = blocks("docs/counting-once.md", f"python file={name}")
    (directory / name).write_text(code)
    program = [sys.executable, str(ROOT / "tests/docs/killed.py"), name]
    # Who was killed comes back as the same member; it does not wait until its session is over.
    with Cluster(config={"num.partitions": "3"}) as cluster:
        servers = cluster.bootstrap_servers
        async with Producer(servers) as producer:
            for number, word in enumerate(WORDS):
                await producer.send("words", word.encode(), partition=number % 3)
        for step in steps:
            done = subprocess.run([*program, str(step), servers], cwd=directory, env=ENVIRONMENT, timeout=PATIENCE_S)
            assert done.returncode == -signal.SIGKILL
        with subprocess.Popen([*program, "0", servers], cwd=directory, env=ENVIRONMENT) as last:
            try:
                while sum(totals(directory).values()) < len(WORDS) and last.poll() is None:
                    pass
            finally:
                last.kill()
    assert totals(directory) == Counter(WORDS)


@pytest.mark.parametrize("name", STEPS)
async def test_totals_are_exact(name: str, tmp_path: Path) -> None:
    await counted(name, STEPS[name], tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", STEPS)
async def test_totals_are_exact_at_every_step(name: str, tmp_path: Path) -> None:
    await counted(name, EVERY_STEP[name], tmp_path)
