"""What a node keeps is for its own user alone, whatever the umask says."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cluster.started import ANY_PORT, started

from penstock.cli.main import main
from penstock.cli.nodes.local_nodes import local_cluster
from penstock.work.connect.standalone.logs import FileLog


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def penstock(*arguments: str, given: str = "") -> None:
    result = CliRunner().invoke(main, arguments, input=given, prog_name="penstock")
    assert result.exit_code == 0, result.output


def test_files_and_folders_of_a_node_are_for_its_user(tmp_path: Path) -> None:
    settings = ("--set", f"log.dirs={tmp_path}/made/data,{tmp_path}/made/more", "--set", "log.segment.bytes=1048576")
    for _ in range(2):  # the second start reads what the first one left
        with started(tmp_path, *ANY_PORT, *settings) as node:
            to = ("--bootstrap-server", f"127.0.0.1:{node.port}")
            penstock("topics", "--create", "--topic", "t", "--if-not-exists", *to)
            penstock("produce", "--topic", "t", *to, given=f"{'x' * 1000}\n" * 2000)
            penstock("consume", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "10", *to)
            assert node.ends_after(signal.SIGTERM)[0] == 0
    made = list((tmp_path / "made").rglob("*"))
    assert {path.suffix for path in made} >= {".log", ".index", ".timeindex", ".snapshot", ".metadata"}
    assert_private(tmp_path, made)


def test_files_of_a_local_cluster_and_of_a_worker_are_for_their_user(tmp_path: Path) -> None:
    cluster = local_cluster(tmp_path / "made", 2, 0)
    for port in cluster.ports:
        port.release()
    asyncio.run(FileLog(tmp_path / "made" / "offsets", lambda *_: None).put(b"key", b"{}"))
    made = list((tmp_path / "made").rglob("*"))
    assert {path.name for path in made} >= {"node-1.properties", "node-2.properties", "offsets"}
    assert_private(tmp_path, made)


def assert_private(tmp_path: Path, made: list[Path]) -> None:
    modes = {str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777) for path in [tmp_path / "made", *made]}
    wanted = {name: "0o700" if (tmp_path / name).is_dir() else "0o600" for name in modes}
    assert modes == wanted
