import io
import json
import logging
import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.main import main
from penstock.cli.terminal.console import LineConsole
from penstock.cli.terminal.lines import (
    LOG_FORMAT,
    LogFormatter,
    ask_password,
    confirm,
    printable,
    printable_json,
    prompt,
    say,
    say_in_place,
    write_bytes,
)
from penstock.cli.terminal.output import print_rows

HOSTILE = "a\x1b]0;title\x07\nb\r\x9bc\u202ed\u2028e\x7f\ud800"


@given(st.text())
def test_what_is_printable_is_one_line_of_harmless_characters(text: str) -> None:
    assert printable(text).replace("\t", "").isprintable()
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize("text", ["", "plain", "größe 日本語 👍", "with\ttabs", r"C:\new"])
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.dictionaries(st.text(), st.lists(st.text())))
def test_json_stays_json(document: dict[str, list[str]]) -> None:
    for how in ({}, {"indent": 2}, {"separators": (",", ":")}):
        text = printable_json(document, **how)
        assert text.replace("\n", "").isprintable()
        assert json.loads(text) == document


def test_lines_and_tables_keep_one_line_for_each_thing(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE, "next")
    print_rows(["NAME"], [(HOSTILE,), ("[red]x[/red] :smile:",)], as_json=False)
    shown = capsys.readouterr().out.splitlines()
    escaped = r"a\x1b]0;title\x07\nb\r\x9bc\u202ed\u2028e\x7f\ud800"
    assert shown == [escaped, "next", "NAME", escaped, "[red]x[/red] :smile:"]


def test_a_console_that_changes_shows_what_was_said() -> None:
    out = io.StringIO()
    LineConsole(file=out, width=100).print(f"[bold]{HOSTILE}")
    assert out.getvalue().startswith(r"[bold]a\x1b]0;title\x07\nb")


def test_an_error_of_a_command_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def fails() -> None:
        raise click.ClickException(HOSTILE)

    monkeypatch.setattr(type(main), "get_command", lambda *_: fails)
    result = CliRunner().invoke(main, ["fails"], prog_name="penstock")
    assert result.output == "Error: a\\x1b]0;title\\x07\n  b\\r\\x9bc\\u202ed\\u2028e\\x7f\\ud800\n"


def test_a_record_of_the_log_is_one_line_and_what_follows_is_marked() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LogFormatter(LOG_FORMAT))
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.LogRecord("name", logging.ERROR, "", 1, "%s: closed", (HOSTILE,), sys.exc_info())
    record.stack_info = f"Stack\n{HOSTILE}"
    handler.emit(record)
    first, *rest = out.getvalue().splitlines()
    assert first.endswith(r"ERROR name: a\x1b]0;title\x07\nb\r\x9bc\u202ed\u2028e\x7f\ud800: closed")
    assert len(rest) > 4
    assert all(line.startswith("| ") and line.isprintable() for line in rest)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "as_they_are", "seen"),
    [
        (Terminal, False, rb"a\x1b\x9b\xff" + b"\nb\n"),
        (Terminal, True, b"a\x1b\xc2\x9b\xff\nb\n"),
        (io.TextIOWrapper, False, b"a\x1b\xc2\x9b\xff\nb\n"),
    ],
)
def test_bytes_are_escaped_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.TextIOWrapper], as_they_are: bool, seen: bytes
) -> None:
    behind = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", stream(behind))
    write_bytes(b"a\x1b\xc2\x9b\xff\nb\n", as_they_are=as_they_are)
    assert behind.getvalue() == seen


def test_where_lines_go(capsys: pytest.CaptureFixture[str]) -> None:
    say("a", "b")
    say("c\n", err=True)
    say()
    prompt("d\x1b")
    say_in_place("e\x1b")
    assert capsys.readouterr() == ("a\nb\n\nd\\x1b", "c\\n\n\re\\x1b")


def asking(typed: str, question: str) -> tuple[int, str, list[str]]:
    """The exit code, what was shown, and the answers."""
    answers: list[str] = []

    @click.command()
    def asks() -> None:
        if question == "password":
            answers.append(ask_password("who\x1b"))
        else:
            confirm("sure\x1b?")
            answers.append("yes")

    done = CliRunner().invoke(asks, input=typed)
    return done.exit_code, done.output, answers


def test_questions() -> None:
    assert asking("y\n", "") == (0, "sure\\x1b? [y/N]: y\n", ["yes"])
    assert asking("n\n", "") == (1, "sure\\x1b? [y/N]: n\nAborted!\n", [])
    assert asking("\n", "")[::2] == (1, [])
    assert asking("", "")[::2] == (1, [])


def test_a_password_is_typed_twice_and_not_shown() -> None:
    code, shown, answers = asking("secret\nsecret\n", "password")
    assert (code, answers, "secret" in shown) == (0, ["secret"], False)
    assert shown.startswith("who\\x1b: \nRepeat for confirmation: ")
    code, shown, answers = asking("secret\nother\nsecond\nsecond\n", "password")
    assert (code, answers) == (0, ["second"])
