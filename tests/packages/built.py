"""The wheel and the source distribution, built offline from the files that git knows, in a directory of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300
ALONE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
"""An environment that does not name the repository."""


def known_files(*folders: str) -> list[str]:
    """What git knows, or would know, with paths from the root; skips where there is no git."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *folders]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def copied(directory: Path, *folders: str) -> Path:
    """A copy of what git knows in `folders`, without its history."""
    for name in known_files(*folders):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, directory / name)
    return directory


def build(kind: str, source: Path, directory: Path) -> Path:
    """`kind` is wheel or sdist; built by this interpreter's own setuptools, which asks no registry."""
    directory.mkdir(exist_ok=True)
    code = f"import sys, setuptools.build_meta as backend; backend.build_{kind}(sys.argv[1])"
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, cwd=source, env=ALONE, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (path for path in directory.iterdir() if path.suffix == (".whl" if kind == "wheel" else ".gz"))
    return made
