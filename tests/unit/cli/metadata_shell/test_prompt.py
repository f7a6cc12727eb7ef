"""The prompt of `penstock metadata-shell`, and what its options mean together."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.cli.metadata_shell import metadata_shell
from penstock.cli.metadata_shell.metadata_shell import Shell, _converse, _look, _prepare_completion
from penstock.cli.metadata_shell.node import Node
from penstock.cli.metadata_shell.source import MetadataView


def shell() -> Shell:
    root = Node()
    root.put("a/b", "one")
    root.put("a/c/d", "two")
    return Shell(root)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Lines, or what happens instead of one; returns the prompts."""

    def type_in(*lines: str | type[BaseException]) -> list[str]:
        prompts: list[str] = []
        left = iter(lines)

        def read(prompt: str) -> str:
            prompts.append(prompt)
            line = next(left)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr(metadata_shell, "input", read, raising=False)
        return prompts

    monkeypatch.setattr(metadata_shell, "_prepare_completion", lambda shell: None)
    return type_in


def test_a_line_is_read_until_the_end(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    looks: list[int] = []
    prompts = typed("ls", "", "cat a/b 'a/c/d'", "nothing", "cat 'a", KeyboardInterrupt, "pwd", EOFError)
    _converse(shell(), lambda: looks.append(1))
    assert prompts == [">> "] * 8
    assert len(looks) == 7, "once before, and before each command"
    assert capsys.readouterr() == (
        "a\none\ntwo\n\n/\n",
        "nothing: no such command; help lists them\nNo closing quotation\n",
    )


def test_it_leaves_when_it_is_told_to(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("exit", "pwd") == []
    walker = shell()
    _converse(walker, lambda: None)
    assert walker.done
    assert capsys.readouterr() == ("", "")


def test_a_cluster_that_is_away_may_be_back_at_the_next_command(typed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([None, click.ClickException("it is away"), None])

    def look() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    typed("pwd", "pwd", EOFError)
    _converse(shell(), look)
    assert capsys.readouterr() == ("/\n", "it is away\n")


def test_a_tree_is_made_anew_where_there_is_news() -> None:
    view = MetadataView()
    view.image.cluster_id = "c"
    for has_news in (False, True):
        walker = shell()
        source: Any = SimpleNamespace(view=view, has_news=lambda has_news=has_news: has_news)
        _look(walker, source)
        assert ("a" in walker.root.children, "cluster" in walker.root.children) == (not has_news, has_news)


def test_the_prompt_completes_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    completers: list[Callable[[str, int], str | None]] = []
    begins = [0]
    played = SimpleNamespace(
        get_begidx=lambda: begins[0],
        set_completer_delims=said.append,
        set_completer=completers.append,
        parse_and_bind=said.append,
    )
    monkeypatch.setitem(sys.modules, "readline", played)
    _prepare_completion(shell())
    assert said == [" ", "tab: complete"]
    (complete,) = completers
    assert [complete("c", state) for state in range(3)] == ["cat ", "cd ", None]
    begins[0] = 1
    assert [complete("a/", state) for state in range(3)] == ["a/b ", "a/c/", None]


def test_a_python_without_completion_has_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)
    _prepare_completion(shell())


MOST = "give at most one of --snapshot, --directory, --bootstrap-server and --bootstrap-controller"
SECRETS = "--show-secrets: a cluster tells nobody; give it with --snapshot or --directory"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("-s f -d g", MOST),
        ("-s f --bootstrap-server h:1", MOST),
        ("-d f --bootstrap-server h:1", MOST),
        ("-d f --bootstrap-controller h:1", MOST),
        ("--show-secrets --bootstrap-server h:1", SECRETS),
        ("--show-secrets", SECRETS),
    ],
)
def test_one_place_is_looked_into(words: str, why: str) -> None:
    done = CliRunner().invoke(metadata_shell.command, [*words.split(), "ls"])
    assert (done.exit_code, " ".join(done.output.partition("Error: ")[2].split())) == (2, why)


@pytest.mark.parametrize("words", ["-s f", "-d f", "-s f --show-secrets"])
def test_a_file_that_is_not_there_is_told(words: str, tmp_path: Path) -> None:
    with_path = [word.replace("f", str(tmp_path / "f")) if word == "f" else word for word in words.split()]
    done = CliRunner().invoke(metadata_shell.command, [*with_path, "ls"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert str(tmp_path) in done.output
