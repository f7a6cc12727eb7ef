"""What README.md and the pages of docs/ tell their readers to type is typed here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, blocks

from penstock.testing import Cluster
from penstock.testing.ports import ReservedPort

SECONDS = 120
PAGES = [code for page in ("testing", "client", "work") for code in blocks(f"docs/{page}.md", "python run")]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


def run(
    command: list[str], directory: Path, environment: dict[str, str] | None = None, seconds: float = SECONDS
) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment or ENVIRONMENT, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("code", PAGES)
def test_examples_run(code: str, tmp_path: Path) -> None:
    run([sys.executable, "-c", code], tmp_path)


def test_testing_page_has_a_test_that_passes_and_can_fail(tmp_path: Path) -> None:
    (code,) = blocks("docs/testing.md", "python file=test_clicks.py")
    (fixtures,) = blocks("docs/testing.md", "python file=conftest.py")
    (tmp_path / "conftest.py").write_text(fixtures)
    (tmp_path / "test_clicks.py").write_text(code)
    (tmp_path / "test_config.py").write_text(
        "def test_config(penstock_cluster, penstock_config):\n    assert penstock_config == {'num.partitions': '4'}\n"
    )
    output = run([sys.executable, "-m", "pytest", "-q", "-p", "penstock.testing.pytest_plugin", "."], tmp_path)
    assert "2 passed" in output


def test_raft_page_has_a_program_that_replicates_its_machine(tmp_path: Path) -> None:
    (code,) = blocks("docs/raft.md", "python file=total.py")
    port = ReservedPort()
    port.make_way()
    try:
        node = f"{port.address}:1"
        for total in (1, 2):
            output = run([sys.executable, "-c", code, node, node, "total-1"], tmp_path)
            assert f"with this one {total}\nin all {total}\n" in output
    finally:
        port.release()


def test_readme_embeds_a_node(tmp_path: Path) -> None:
    code = next(code for code in blocks("README.md", "python") if "Cluster()" in code)
    run([sys.executable, "-c", code], tmp_path)


def test_readme_commands_work_as_they_stand(tmp_path: Path) -> None:
    """All but the installation and the node itself, which this test brings on a port of its own."""
    script = next(text for text in blocks("README.md", "sh") if "penstock start" in text)
    lines = [line for line in script.splitlines() if not re.match(r"pip |penstock start", line)]
    penstock = tmp_path / "penstock"
    with Cluster() as cluster:
        penstock.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@" --bootstrap-server {cluster.bootstrap_servers}\n'
        )
        penstock.chmod(0o755)
        environment = ENVIRONMENT | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        output = run(["sh", "-ec", "\n".join(lines)], tmp_path, environment)
    assert len(lines) == 3
    assert output.splitlines()[-1] == "hello"
