"""What a package has besides its code: the commit that it was made of, and the folders that come along.

All else stands in pyproject.toml.
"""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
COMMIT = "commit.txt"
COMES_ALONG = ("dashboards", "deploy", "site")
"""`penstock files` shows them. `site` is there once `make site` has made it."""


def commit() -> str | None:
    """None where this is no checkout; a source distribution has the file that is written of it."""
    if not (ROOT / ".git").exists():
        return None
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def write_commit(package: Path) -> None:
    found = commit()
    if found is not None:
        (package / COMMIT).write_text(found + "\n", encoding="utf-8")


class BuildPy(build_py):  # type: ignore[misc]
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "penstock"
        write_commit(package)
        for folder in COMES_ALONG:
            if (ROOT / folder).is_dir():
                shutil.copytree(ROOT / folder, package / "files" / folder, dirs_exist_ok=True)


class Sdist(sdist):  # type: ignore[misc]
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / "src" / "penstock")


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
