"""The code that a job takes along: modules, as a zip file in text, and the packages that they need, with versions.

Both lie on a worker's disk by their hash, so that a process that begins again finds them. What no worker has used for
a month goes when the next one begins.
"""

import base64
import binascii
import hashlib
import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.pipeline.errors import PipelineError

MOST_CHARACTERS: Final = 600_000
"""Of modules as text: a record of the config topic has 1 MB."""
MOST_UNPACKED_BYTES: Final = 16 << 20
MODULES: Final = "modules"
"""Where they are imported from; the pipeline's own file lies beside it, for it may have the name of one of Python's."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each file in the zip file, so that the same modules are the same text."""
HASH_LENGTH: Final = 12
UNUSED_S: Final = 30 * 86_400.0
PINNED: Final = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w, .-]*\])?==[\w.!+-]+(\s.*)?", re.ASCII)


def packed(modules: Sequence[Path], pipeline: Path | None = None) -> str:
    """Modules (files) and packages (folders) by their names, and the pipeline's own file; PipelineError."""
    found: dict[str, Path] = {} if pipeline is None else {pipeline.name: pipeline}
    for path in modules:
        for file, name in _files(path):
            if name in found:
                raise PipelineError(f"{path}: there are two modules {Path(name).name}.")
            found[name] = file
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, file in found.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    text = base64.b64encode(content.getvalue()).decode()
    if len(text) > MOST_CHARACTERS:
        raise PipelineError(
            f"The modules have {len(text):,} characters as they are sent, and {MOST_CHARACTERS:,} are the most. "
            "Install large ones where the workers run, or as requirements."
        )
    return text


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_file():
        yield path, f"{MODULES}/{path.name}"
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file, f"{MODULES}/{path.resolve().name}/{file.relative_to(path).as_posix()}"
    else:
        raise PipelineError(f"There is no module {path}.")


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def unpacked(text: str, root: Path) -> Path:
    """The folder with the pipeline's file and `MODULES`, below `root`; PipelineError for what `packed` has not made."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(text, validate=True)))
    except (binascii.Error, zipfile.BadZipFile, ValueError) as error:
        raise PipelineError(f"The modules of the pipeline cannot be read: {error}.") from None
    if sum(one.file_size for one in archive.infolist()) > MOST_UNPACKED_BYTES:
        raise PipelineError(f"The modules of the pipeline are larger than {MOST_UNPACKED_BYTES:,} bytes.")
    return made_once(root / hash_of(text), archive.extractall)  # leaves out what leads elsewhere


def checked_requirements(text: str) -> str:
    """PipelineError where a package has no version: another worker would get another one."""
    for line in text.splitlines():
        said = line.partition("#")[0].strip()
        if said and not said.startswith("--hash") and not PINNED.fullmatch(said.rstrip("\\").strip()):
            raise PipelineError(f"requirements: {said} is not NAME==VERSION.")
    return text


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """As a whole: other processes may do the same."""
    touch(folder)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f"{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True
        ) as one:
            draft = Path(one) / "made"
            draft.mkdir()
            make(draft)
            with suppress(OSError):  # somebody else was sooner
                draft.rename(folder)
    return folder


def touch(folder: Path) -> None:
    """It is in use."""
    with suppress(OSError):
        os.utime(folder)


def remove_unused(root: Path, now_s: float) -> None:
    """What was not touched for long, drafts that a killed process has left included."""
    for one in root.iterdir() if root.is_dir() else ():
        with suppress(OSError):  # another worker was sooner
            _remove_if_older(one, now_s - UNUSED_S)


def _remove_if_older(one: Path, time_s: float) -> None:
    if one.stat().st_mtime >= time_s:
        return
    going = one.rename(one.with_name(f"{one.name}.going"))
    if going.stat().st_mtime >= time_s:  # somebody came for it meanwhile
        going.rename(one)
    elif going.is_dir():
        shutil.rmtree(going)
    else:
        going.unlink()
