"""Each tutorial is typed as it stands: its commands one after the other at one node, its programs each by itself."""

import os
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, blocks
from tests.docs.test_examples import ENVIRONMENT, run

from penstock.node.assembly.properties import load_config
from penstock.testing import Cluster

TUTORIALS = [path.stem for path in sorted((ROOT / "docs/tutorials").glob("*.md"))]
SLOW = ("break-a-cluster",)
"""Its three nodes are processes, of which one is killed."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in SLOW else []) for name in TUTORIALS]
)
def test_programs_run(name: str, tmp_path: Path) -> None:
    for code in blocks(f"docs/tutorials/{name}.md", "python run"):
        run([sys.executable, "-c", code], tmp_path)


@pytest.mark.parametrize("name", ["first-topic", pytest.param("from-kafka", marks=pytest.mark.soak)])
def test_commands_run(name: str, tmp_path: Path) -> None:
    penstock = tmp_path / "penstock"
    with Cluster() as cluster:
        penstock.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@" --bootstrap-server {cluster.bootstrap_servers}\n'
        )
        penstock.chmod(0o755)
        environment = ENVIRONMENT | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        run(["sh", "-ec", "\n".join(blocks(f"docs/tutorials/{name}.md", "sh run"))], tmp_path, environment)


def test_the_file_of_a_broker_is_read_as_it_is(tmp_path: Path) -> None:
    (text,) = blocks("docs/tutorials/from-kafka.md", "properties file=server.properties")
    (tmp_path / "server.properties").write_text(text)
    loaded = load_config(tmp_path / "server.properties")
    (warning,) = loaded.warnings
    assert "num.network.threads" in warning
