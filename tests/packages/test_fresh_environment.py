"""A source distribution becomes the same wheel, which is installed in an environment that knows no repository.

Other projects' packages are those of this environment, so nothing is asked of a registry.
"""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.packages.built import ALONE, LIMIT_S, ROOT, build, copied, known_files

pytestmark = pytest.mark.soak
ENTRY_POINTS = """
from importlib.metadata import entry_points
for group in ("penstock.connectors", "penstock.converters", "pytest11", "console_scripts"):
    for point in entry_points(group=group):
        if "penstock" in point.value:
            print(group, point.name, point.load())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of what a source distribution has."""
    directory = tmp_path_factory.mktemp("fresh")
    archive = build("sdist", copied(directory / "source"), directory / "dist")
    with tarfile.open(archive) as files:
        files.extractall(directory / "unpacked", filter="data")
    (unpacked,) = (directory / "unpacked").iterdir()
    have = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    missing = set(known_files("src", "docs", "dashboards", "deploy", "examples", "tests", "tools")) - have
    assert missing == set()
    return build("wheel", unpacked, directory / "wheel")


@pytest.fixture(scope="module")
def binaries(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the fresh environment are."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    others = directory / "others"
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "penstock" not in path.name.lower():
            (others / path.name).symlink_to(path)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin/python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "-q", str(built)], check=True, env=ALONE)
    return directory / "bin"


def run(command: list[str | Path], directory: Path, given: str = "") -> str:
    done = subprocess.run(
        command, cwd=directory, env=ALONE, input=given, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def bootstrap(binaries: Path, tmp_path: Path) -> Iterator[str]:
    """A node that `penstock start` runs."""
    command = [str(binaries / "penstock"), "start", "--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, env=ALONE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        try:
            yield next(found[1] for line in node.stdout if (found := re.search(r"listens on\s+\w+://(\S+)", line)))
        finally:
            node.terminate()
            node.stdout.read()
    assert node.returncode == 0


def test_the_wheel_is_that_of_the_source(built: Path) -> None:
    inside = {name for name in ZipFile(built).namelist() if name.startswith("penstock/")}
    assert {name.removeprefix("src/") for name in known_files("src/penstock")} <= inside


def test_all_that_it_offers_to_others_loads(binaries: Path, tmp_path: Path) -> None:
    told = run([binaries / "python", "-c", ENTRY_POINTS], tmp_path).splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["scripts"], *(name for group in project["entry-points"].values() for name in group)]
    assert len(told) == len(declared)


def test_commands_and_a_connector_run(binaries: Path, bootstrap: str, tmp_path: Path) -> None:
    penstock, servers = str(binaries / "penstock"), ["--bootstrap-server", bootstrap]
    (tmp_path / "worker.properties").write_text(
        f"bootstrap.servers={bootstrap}\noffset.storage.file.filename={tmp_path}/offsets\n"
        "key.converter=StringConverter\nvalue.converter=StringConverter\nlisteners=http://127.0.0.1:0\n"
    )
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "job.properties").write_text(
        f"name=lines\nconnector.class=FileStreamSource\nfile={tmp_path}/lines.txt\ntopic=lines\n"
    )
    run([penstock, "topics", "--create", "--topic", "lines", *servers], tmp_path)
    worker = [penstock, "worker", "--standalone", "worker.properties", "job.properties"]
    with subprocess.Popen(worker, cwd=tmp_path, env=ALONE) as process:
        try:
            consume = ["consume", "--topic", "lines", "--from-beginning", "--max-messages", "2"]
            assert run([penstock, *consume, *servers], tmp_path).split() == ["one", "two"]
        finally:
            process.terminate()
    assert process.returncode == 0


def test_the_fixture_of_pytest_and_other_clients(binaries: Path, tmp_path: Path) -> None:
    (tmp_path / "test_clicks.py").write_text(
        "from confluent_kafka import Producer\n\n"
        "def test_clicks(penstock_bootstrap_servers):\n"
        "    producer = Producer({'bootstrap.servers': penstock_bootstrap_servers})\n"
        "    producer.produce('clicks', b'hello')\n"
        "    assert producer.flush(30) == 0\n"
    )
    assert "1 passed" in run([binaries / "python", "-m", "pytest", "-q", "."], tmp_path)
