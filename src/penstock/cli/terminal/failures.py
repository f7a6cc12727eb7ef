"""How a command ends on what is not its own fault: with one line, and without a traceback."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import click


@contextmanager
def in_words(
    *kinds: type[Exception], before: str = "", how: type[click.ClickException] = click.ClickException
) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        raise how(f"{before}{error}") from None


def wrong_usage(*kinds: type[Exception], of: str = "") -> AbstractContextManager[None]:
    return in_words(*kinds, before=f"{of}: " if of else "", how=click.UsageError)
