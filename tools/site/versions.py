"""The sites of several versions beside each other: `python -m tools.site.versions DIRECTORY [REF…]`.

Each earlier one is written by its own tools, from what git has of it; this one by these. A page names them all, and is
behind the version in the head of each page of this one.
"""

import html
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.site.__main__ import Site
from tools.site.contents import ROOT

CURRENT: Final = "current"
PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Versions · Penstock</title><link rel="stylesheet" href="current/style.css">
<link rel="icon" href="current/icon.svg" type="image/svg+xml"></head>
<body><main><h1>Penstock, by versions</h1><ul>
{items}
</ul></main></body></html>
"""


class NoSuchVersionError(Exception):
    """Git does not have it, or it had no site."""


def write_versions(directory: Path, refs: Sequence[str]) -> None:
    """`refs` are tags or commits, the newest first; each has a folder of its name. NoSuchVersionError."""
    Site(directory / CURRENT, versions="../index.html").write()
    names = [ref.replace("/", "-") for ref in refs]
    for ref, name in zip(refs, names, strict=True):
        with TemporaryDirectory() as tree:
            _check_out(ref, Path(tree))
            _write(Path(tree), directory / name, ref)
    shown = [f'<li><a href="{name}/index.html">{html.escape(name)}</a></li>' for name in (CURRENT, *names)]
    (directory / "index.html").write_text(PAGE.format(items="\n".join(shown)), encoding="utf-8")


def _check_out(ref: str, tree: Path) -> None:
    asked = ["git", "archive", "--format=tar", "--end-of-options", ref]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise NoSuchVersionError(f"{ref}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as files:
        files.extractall(tree, filter="data")


def _write(tree: Path, directory: Path, ref: str) -> None:
    if not (tree / "tools/site/__main__.py").is_file():
        raise NoSuchVersionError(f"{ref} has no tools/site, which wrote no site yet")
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-m", "tools.site", str(directory.resolve())]
    subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "sites"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        write_versions(directory, sys.argv[2:])
    except NoSuchVersionError as error:
        sys.exit(str(error))
    print(f"wrote {directory}/index.html")


if __name__ == "__main__":
    main()
