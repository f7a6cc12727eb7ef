"""Modules and packages that a job takes along."""

import base64
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import commands
from penstock.pipeline.jobs.code import MOST_CHARACTERS, checked_requirements, hash_of, packed, unpacked
from penstock.pipeline.jobs.commands import prepared
from penstock.pipeline.jobs.connector import sinks_of
from penstock.pipeline.jobs.keys import SINKS
from penstock.work.connect.config import ConfigError

PIPELINE = "SOURCE = {'subscribe': 'a'}\nSINK = {'topic': 'out'}\nCHECKPOINT = '/c'\nSQL = 'SELECT 1'\n"


@pytest.fixture
def modules(tmp_path: Path) -> list[Path]:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "shop" / "__pycache__").mkdir(parents=True)
    (tmp_path / "own" / "shop" / "__pycache__" / "names.pyc").write_text("old")
    (tmp_path / "own" / "shop" / "names.py").write_text("WORD = 'names'\n")
    (tmp_path / "own" / "job.py").write_text(PIPELINE)
    return [tmp_path / "own" / "shop", tmp_path / "own" / "job.py"]


def all_of(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.*"))


def test_what_is_unpacked_is_what_was_packed(modules: list[Path], tmp_path: Path) -> None:
    text = packed(modules[:1], modules[1])
    folder = unpacked(text, tmp_path / "code")
    assert folder == unpacked(text, tmp_path / "code") == tmp_path / "code" / hash_of(text)
    assert all_of(folder) == ["job.py", "modules/shop/names.py"]
    assert [file.name for file in folder.parent.iterdir()] == [folder.name], "no drafts are left"
    os.utime(modules[1], (0, 0))
    assert packed(modules[:1], modules[1]) == text, "the same modules are the same text"
    modules[1].write_text(PIPELINE + "X = 1\n")
    assert packed(modules[:1], modules[1]) != text
    assert all_of(unpacked(packed(modules), tmp_path / "code")) == ["modules/job.py", "modules/shop/names.py"]


def test_modules_that_cannot_go_along(modules: list[Path], tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there are two modules job\.py"):
        packed([modules[1], modules[1]])
    with pytest.raises(PipelineError, match="There is no module /nowhere"):
        packed([Path("/nowhere")])
    modules[1].write_bytes(os.urandom(MOST_CHARACTERS))
    with pytest.raises(PipelineError, match="600,000 are the most"):
        packed(modules)
    for text in ("!", base64.b64encode(b"no zip").decode()):
        with pytest.raises(PipelineError, match="cannot be read"):
            unpacked(text, tmp_path)


def test_what_leads_out_of_the_folder_stays_within(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../../out.py", "")
    folder = unpacked(base64.b64encode((tmp_path / "bad.zip").read_bytes()).decode(), tmp_path / "a" / "b")
    assert [file.relative_to(folder).as_posix() for file in tmp_path.rglob("out.py")] == ["out.py"]


def test_packages_need_versions() -> None:
    good = "# ours\nfoo==1.0  # for names\nBar[x,y]==2.0.post1 \\\n    --hash=sha256:ab\n\nbaz==1!3 ; os_name == 'nt'\n"
    assert checked_requirements(good) == good
    for bad in ("foo", "foo>=1", "-r other.txt", "git+https://a/b", "foo=="):
        with pytest.raises(PipelineError, match="is not NAME==VERSION"):
            checked_requirements(bad)


def test_the_process_finds_what_came_along(
    modules: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "cache_directory", lambda: tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/before")
    text = packed(modules[:1], modules[1])
    config = {"name": "job", "connector.class": "x", "pipeline.file": "job.py", "pipeline.code": text}
    assert sinks_of(config) == ["out"]
    folder = tmp_path / "code" / hash_of(text)
    command, environment = prepared({**config, SINKS: '["out"]'})
    assert command[3:6] == ["pipeline", "run", str(folder / "job.py")]
    assert environment == {"PYTHONPATH": f"{folder}/modules:/before"}
    with pytest.raises(ConfigError, match="foo is not NAME==VERSION"):
        sinks_of({**config, "pipeline.requirements": "foo"})
    command, environment = prepared({**config, SINKS: '["out"]', "pipeline.requirements": "foo==1"})
    packages = tmp_path / "code" / f"requirements-{hash_of('foo==1')}"
    assert command[2:5] == ["penstock.pipeline.jobs.installed", f"{packages}.txt", str(packages)]
    assert Path(command[3]).read_text() == "foo==1"
    assert environment == {"PYTHONPATH": f"{folder}/modules:{packages}:/before"}


def wheel(folder: Path) -> None:
    name, info = "tiny", "tiny-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tiny.py", "WORD = 'tiny'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def test_packages_are_installed_before_the_process_begins(tmp_path: Path) -> None:
    wheel(tmp_path)
    folder, listed = tmp_path / "packages", tmp_path / "listed.txt"
    listed.write_text("tiny==1.0\n")
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    places = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    program = [sys.executable, "-c", "import sys, tiny; print(tiny.WORD, sys.stdin.read())"]

    def begin() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "penstock.pipeline.jobs.installed", str(listed), str(folder), *program],
            env={**os.environ, **index, "PYTHONPATH": places},
            input="and its input",
            capture_output=True,
            text=True,
            check=False,
        )

    assert begin().stdout == "tiny and its input\n"
    index["PIP_FIND_LINKS"] = "/nowhere"
    assert begin().stdout == "tiny and its input\n", "once"
    folder = tmp_path / "others"
    failed = begin()
    assert (failed.returncode, folder.exists()) == (1, False)
    assert "No matching distribution" in failed.stderr
