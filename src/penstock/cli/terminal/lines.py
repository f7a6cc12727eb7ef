"""Lines that people read: words of strangers in them command no terminal, and begin no line of their own.

Names, keys, values and messages come from whoever can reach the cluster. What is not printable stands as an escape, as
Python's `repr` writes it; only tabs stay. Commands print through `say` and the tables of `output.py`, and nodes and
workers log through `begin_logging`; `tests/architecture/test_what_people_see.py` sees that there is no other way.
"""

import json
import logging
import sys
from typing import Any, Final

import click

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CONTINUED: Final = "| "


def printable(text: str) -> str:
    """One line, whatever `text` holds."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() or it == "\t" else ascii(it)[1:-1] for it in text)


def one_message(text: str) -> str:
    """Several lines, of which none but the first can be taken for a message of its own."""
    return "\n  ".join(map(printable, text.split("\n")))


def printable_json(document: object, **how: Any) -> str:
    """The same document as `json.dumps` writes: what is not printable is escaped in the way of JSON."""
    text = json.dumps(document, ensure_ascii=False, **how)
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() or it == "\n" else json.dumps(it)[1:-1] for it in text)


def say(*lines: str, err: bool = False) -> None:
    click.echo("\n".join(map(printable, lines)), err=err)


def say_in_place(text: str) -> None:
    """Stands in the place of what was said so before, on the standard error, which is a terminal."""
    click.echo(f"\r\x1b[K{printable(text)}", nl=False, err=True)


def prompt(text: str) -> None:
    click.echo(printable(text), nl=False)


def confirm(question: str) -> None:
    """Raises click.Abort unless the answer is yes."""
    click.confirm(printable(question), abort=True)


def ask_password(question: str) -> str:
    """Twice, and what is typed is not shown. Raises click.Abort at the end of the input."""
    answer: str = click.prompt(printable(question), hide_input=True, confirmation_prompt=True, err=True)
    return answer


def write_bytes(data: bytes, *, as_they_are: bool) -> None:
    """Files and pipes get bytes as they are; so does a terminal only where that was asked for."""
    if not as_they_are and sys.stdout.isatty():
        data = "\n".join(map(printable, data.decode(errors="backslashreplace").split("\n"))).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class LogFormatter(logging.Formatter):
    """A record has one line; a traceback follows on lines that cannot be taken for the next record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return _continued(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        return _continued(super().formatStack(stack_info))


def begin_logging(level: int | str) -> None:
    """On the standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


def _continued(text: str) -> str:
    return "\n".join(CONTINUED + printable(line) for line in text.split("\n"))
