"""What comes with the package beside its code: the commit that it was made of, and folders of files for others.

A wheel has them inside the package (`setup.py` puts them there); in a checkout they are where they are written.
"""

import subprocess
from pathlib import Path
from typing import Final

import penstock

PACKAGE: Final = Path(penstock.__file__).resolve().parent
CHECKOUT: Final = PACKAGE.parents[1]
FOLDERS: Final = ("dashboards", "deploy", "site")
"""The last is these pages, and there once `make site` has made it."""
GIT_S: Final = 5


def commit() -> str | None:
    """What the package was made of: a commit, with `-dirty` behind it if there were changes. None: nobody knows."""
    written = PACKAGE / "commit.txt"
    if written.is_file():
        return written.read_text(encoding="utf-8").strip()
    if not (CHECKOUT / ".git").exists():
        return None
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=GIT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def folders() -> dict[str, Path]:
    """Those that are there, by their names."""
    if (PACKAGE / "files").is_dir():
        within = PACKAGE / "files"
    elif (CHECKOUT / "pyproject.toml").is_file():
        within = CHECKOUT
    else:
        return {}
    return {name: within / name for name in FOLDERS if (within / name).is_dir()}
