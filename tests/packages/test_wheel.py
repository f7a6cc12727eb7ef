"""The wheel has what the source has, and a node, its client and the pytest plugin run from it alone."""

import subprocess
import sys
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.packages.built import ALONE, LIMIT_S, build, copied, known_files

import penstock
from penstock.cli.terminal.shipped import FOLDERS

PARTS = ("src", *FOLDERS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
COMMIT = "0123456789ab"
PROGRAM = """
import json, subprocess, sys
import penstock
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer

def command(*arguments):
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

async def test_a_record_goes_through(penstock_bootstrap_servers):
    async with Producer(penstock_bootstrap_servers) as producer:
        await producer.send("clicks", b"hello")
    (told,) = json.loads(command("topics", "--describe", "--json", "--bootstrap-server", penstock_bootstrap_servers))
    assert told["topic"] == "clicks"

def test_who_runs_and_what_comes_along():
    print(penstock.__file__)
    print(command("--version"), command("files"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Built as from a source distribution, which has a file that names the commit."""
    directory = tmp_path_factory.mktemp("wheel")
    source = copied(directory / "source", *PARTS)
    (source / "src/penstock/commit.txt").write_text(COMMIT + "\n")
    return ZipFile(build("wheel", source, directory / "dist"))


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_it_has_what_the_source_has_and_what_comes_along(wheel: ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    code = {name.removeprefix("src/") for name in known_files("src")}
    along = {f"penstock/files/{name}" for name in known_files(*FOLDERS)}
    assert inside == code | along | {"penstock/commit.txt"}
    assert "penstock/files/dashboards/alerts.yml" in along


def test_its_metadata_say_what_it_is(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("penstock", penstock.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"spark", "work", "oauth", "tls"} <= set(metadata.get_all("Provides-Extra") or ())
    assert "Framework :: Pytest" in (metadata.get_all("Classifier") or ())


def test_a_node_runs_from_it_alone(wheel: ZipFile, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    wheel.extractall(unpacked)
    (tmp_path / "test_alone.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-o", "asyncio_mode=auto", "test_alone.py"],
        cwd=tmp_path,
        env=ALONE | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert str(unpacked / "penstock" / "__init__.py") in done.stdout
    assert f"penstock {penstock.__version__} (commit {COMMIT})" in done.stdout
    assert str(unpacked / "penstock/files/dashboards/alerts.yml") in done.stdout
