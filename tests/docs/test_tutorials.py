"""Each tutorial is typed as it stands: its commands one after the other at one node, its programs each by itself."""

import os
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, blocks
from tests.docs.test_examples import ENVIRONMENT, SECONDS, run

from penstock.node.assembly.properties import load_config
from penstock.testing import Cluster

WITH_SPARK = "flights"
"""It is one program in files, of which each step needs the one before."""
TUTORIALS = [path.stem for path in sorted((ROOT / "docs/tutorials").glob("*.md")) if path.stem != WITH_SPARK]
SLOW = ("break-a-cluster",)
"""Its three nodes are processes, of which one is killed."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in SLOW else []) for name in TUTORIALS]
)
def test_programs_run(name: str, tmp_path: Path) -> None:
    for code in blocks(f"docs/tutorials/{name}.md", "python run"):
        run([sys.executable, "-c", code], tmp_path)


@pytest.mark.parametrize(
    "name", ["first-topic", *(pytest.param(name, marks=pytest.mark.soak) for name in ("from-kafka", "delayed-orders"))]
)
def test_commands_run(name: str, tmp_path: Path) -> None:
    with Cluster() as cluster:
        typed(name, cluster, tmp_path)


def typed(name: str, cluster: Cluster, directory: Path, seconds: float = SECONDS) -> str:
    """What a tutorial's commands print at this cluster, one after the other in a directory."""
    elsewhere = f'test "$1" = pipeline || set -- "$@" --bootstrap-server {cluster.bootstrap_servers}'
    python = f'exec "{sys.executable}"'
    for program, script in (("penstock", f"{elsewhere}\n{python} -m penstock"), ("python", python)):
        (directory / program).write_text(f'#!/bin/sh\n{script} "$@"\n')
        (directory / program).chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}
    commands = "\n".join(blocks(f"docs/tutorials/{name}.md", "sh run"))
    return run(["sh", "-ec", commands], directory, environment, seconds)


@pytest.mark.soak
@pytest.mark.timeout(700)
def test_flights_go_through_spark(tmp_path: Path) -> None:
    with Cluster() as cluster:
        for mark in ("python file=flights.py", "yaml file=delays.yaml"):
            (text,) = blocks(f"docs/tutorials/{WITH_SPARK}.md", mark)
            text = text.replace("127.0.0.1:9092", cluster.bootstrap_servers)
            (tmp_path / mark.split("=")[1]).write_text(text)
        printed = typed(WITH_SPARK, cluster, tmp_path, seconds=5 * SECONDS)
    assert "6099 flights" in printed
    assert '"minutes_late"' in printed


def test_the_file_of_a_broker_is_read_as_it_is(tmp_path: Path) -> None:
    (text,) = blocks("docs/tutorials/from-kafka.md", "properties file=server.properties")
    (tmp_path / "server.properties").write_text(text)
    loaded = load_config(tmp_path / "server.properties")
    (warning,) = loaded.warnings
    assert "num.network.threads" in warning
