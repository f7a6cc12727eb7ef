"""What the commands on the folder of a secured cluster have in common."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from penstock.cli.terminal.options import option
from penstock.log.directories.errors import LogDirectoryError
from penstock.testing.secured.authorities import AuthorityError
from penstock.testing.secured.folder import SecuredFolder

DIRECTORY: Final = option(
    "The folder with the files of all nodes and clients.",
    "--directory",
    exists=False,
    default=Path("penstock-security"),
    show_default=True,
)
RELOADED: Final = "a node takes what is new in its files within 10 seconds, while it runs"


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@contextmanager
def told() -> Iterator[None]:
    """Failures are one line."""
    try:
        yield
    except (AuthorityError, LogDirectoryError) as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:  # who reads has seen enough
        raise
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None


def found(directory: Path) -> SecuredFolder:
    with told():
        return SecuredFolder.found(directory.absolute(), now())
