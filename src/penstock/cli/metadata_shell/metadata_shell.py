"""`penstock metadata-shell`: walk the cluster's metadata like a tree of files, with a prompt or one command at once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from penstock.cli.metadata_shell.cluster_source import ClusterSource
from penstock.cli.metadata_shell.node import Node
from penstock.cli.metadata_shell.source import read_view
from penstock.cli.metadata_shell.tree import build_tree
from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import argument, declared, option
from penstock.cli.terminal.session import NodeSession
from penstock.log.directories.errors import LogDirectoryError
from penstock.protocol.errors import DecodeError

MANUAL: Final = {
    "cat": "cat PATH...      print the content of nodes",
    "cd": "cd [PATH]        go to a node; to the root without a path",
    "exit": "exit             leave",
    "find": "find [PATH]...   print the paths of all that is below a node",
    "help": "help             list the commands",
    "history": "history [N]      print the last commands",
    "ls": "ls [PATH]...     list what is below a node",
    "man": "man COMMAND      explain a command",
    "pwd": "pwd              print where you are",
    "rm": "rm /controller   let the active controller of a running cluster go: another one is elected",
    "set": "set /controller N    ask that controller N take over from the active one of a running cluster",
    "tree": "tree [PATH]...   print all that is below a node, with content",
}


class ShellError(click.ClickException):
    pass


class Shell:
    """`exit` sets `done`."""

    def __init__(self, root: Node, *, hand_over: Callable[[int | None], None] | None = None) -> None:
        """`hand_over` lets the active controller go, to a successor if one is named; None for files."""
        self.root = root
        self._hand_over = hand_over
        self.place: tuple[str, ...] = ()
        self.history: list[str] = []
        self.done = False
        self._commands: dict[str, Callable[[Sequence[str]], Iterator[str]]] = {
            name: getattr(self, f"_{name}") for name in MANUAL
        }

    def run(self, words: Sequence[str]) -> Iterator[str]:
        """Yields lines. Raises ShellError."""
        if not words:
            return iter(())
        self.history.append(shlex.join(words))
        command = self._commands.get(words[0])
        if command is None:
            raise ShellError(f"{words[0]}: no such command; help lists them")
        return command(words[1:])

    def complete(self, text: str, *, is_first: bool) -> list[str]:
        if is_first:
            return [name + " " for name in MANUAL if name.startswith(text)]
        parent, slash, start = text.rpartition("/")
        try:
            node = self._node(parent + slash or ".")
        except ShellError:
            return []
        shown = sorted(name for name in node.children if name.startswith(start) and name.isprintable())
        return [f"{parent}{slash}{name}{'/' if node.children[name].children else ' '}" for name in shown]

    def _resolve(self, path: str) -> tuple[str, ...]:
        names = [] if path.startswith("/") else list(self.place)
        for name in path.split("/"):
            if name == "..":
                del names[-1:]
            elif name not in ("", "."):
                names.append(name)
        return tuple(names)

    def _node(self, path: str) -> Node:
        node = self.root
        for name in self._resolve(path):
            if name not in node.children:
                raise ShellError(f"{path}: no such node")
            node = node.children[name]
        return node

    def _ls(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths or ["."]:
            node = self._node(path)
            if len(paths) > 1:
                yield f"{path}:"
            yield from sorted(node.children) if node.children or node.content is None else [path]

    def _cat(self, paths: Sequence[str]) -> Iterator[str]:
        if not paths:
            raise ShellError("cat: which node?")
        for path in paths:
            content = self._node(path).content
            if content is None:
                raise ShellError(f"{path}: has no content; ls lists what is below it")
            yield content

    def _cd(self, paths: Sequence[str]) -> Iterator[str]:
        path = paths[0] if paths else "/"
        node = self._node(path)
        if not node.children and node.content is not None:
            raise ShellError(f"{path}: has nothing below it; cat prints its content")
        self.place = self._resolve(path)
        return iter(())

    def _pwd(self, _: Sequence[str]) -> Iterator[str]:
        yield "/" + "/".join(self.place)

    def _rm(self, paths: Sequence[str]) -> Iterator[str]:
        if [self._resolve(path) for path in paths] != [("controller",)]:
            raise ShellError("rm: only /controller can be removed")
        return self._let_go("rm", None)

    def _set(self, words: Sequence[str]) -> Iterator[str]:
        if len(words) != 2 or self._resolve(words[0]) != ("controller",):
            raise ShellError("set: only /controller can be set, to the id of a controller")
        return self._let_go("set", _controller_named(words[1]))

    def _let_go(self, command: str, successor_id: int | None) -> Iterator[str]:
        if self._hand_over is None:
            raise ShellError(f"{command}: these are files; give --bootstrap-server or --bootstrap-controller")
        self._hand_over(successor_id)
        return iter(())

    def _find(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths or ["."]:
            yield from _paths(path.rstrip("/") or "/", self._node(path))

    def _tree(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths or ["."]:
            yield from _branches(self._node(path), "")

    def _man(self, names: Sequence[str]) -> Iterator[str]:
        for name in names or ["man"]:
            if name not in MANUAL:
                raise ShellError(f"{name}: no such command; help lists them")
            yield MANUAL[name]

    def _help(self, _: Sequence[str]) -> Iterator[str]:
        yield from MANUAL.values()

    def _history(self, counts: Sequence[str]) -> Iterator[str]:
        if counts and not counts[0].isdecimal():
            raise ShellError(f"{counts[0]}: not a number")
        first = max(0, len(self.history) - int(counts[0])) if counts else 0
        for number, line in enumerate(self.history[first:], first + 1):
            yield f"{number}  {line}"

    def _exit(self, _: Sequence[str]) -> Iterator[str]:
        self.done = True
        return iter(())


def _controller_named(text: str) -> int:
    """`text` is its id, or what the node holds with that id in it."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    node_id = value.get("brokerid") if isinstance(value, dict) else value
    if not isinstance(node_id, int) or isinstance(node_id, bool) or node_id < 0:
        raise ShellError(f'set: {text}: give an id, such as 2, or {{"brokerid":2}}')
    return node_id


def _paths(path: str, node: Node) -> Iterator[str]:
    yield path
    for name in sorted(node.children):
        yield from _paths(f"{path.rstrip('/')}/{name}", node.children[name])


def _branches(node: Node, indent: str) -> Iterator[str]:
    if node.content is not None:
        yield indent + node.content
    for name in sorted(node.children):
        yield f"{indent}{name}:"
        yield from _branches(node.children[name], indent + "  ")


@click.command(short_help="look into the cluster's metadata", context_settings={"ignore_unknown_options": True})
@declared
def command(
    *,
    snapshot: Path | None = option("A .checkpoint or .log of the metadata log.", "-s", "--snapshot", exists=False),
    directory: Path | None = option("A node's data directory.", "-d", "--directory", exists=False),
    session: NodeSession,
    show_secrets: bool = option("Of files: values of sensitive configs as well."),
    words: tuple[str, ...] = argument(nargs=-1, metavar="[COMMAND]..."),
) -> None:
    """Look into the cluster's metadata: run COMMAND, or without one show a prompt; its command help lists all others.

    The metadata comes from files, whose node may run, ours or Apache Kafka's; or from the active controller of a
    running cluster, as it is at each command.
    """
    if sum((snapshot is not None, directory is not None, session.are_given)) > 1:
        raise click.UsageError(
            "give at most one of --snapshot, --directory, --bootstrap-server and --bootstrap-controller"
        )
    if snapshot is None and directory is None:
        if show_secrets:
            raise click.UsageError("--show-secrets: a cluster tells nobody; give it with --snapshot or --directory")
        source = ClusterSource(session)
        shell = Shell(Node(), hand_over=source.hand_over)
        look: Callable[[], None] = partial(_look, shell, source)
    else:
        shell, look = Shell(Node()), lambda: None  # there is nothing new in files
        with in_words(OSError, DecodeError, LogDirectoryError):
            shell.root = build_tree(read_view(snapshot or directory or Path()), show_secrets=show_secrets)
    if not words:
        _converse(shell, look)
        return
    look()
    for line in shell.run(words):
        say(line)


def _look(shell: Shell, source: ClusterSource) -> None:
    if source.has_news():
        shell.root = build_tree(source.view)


def _converse(shell: Shell, look: Callable[[], None]) -> None:
    look()
    _prepare_completion(shell)
    while not shell.done:
        try:
            line = input(">> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            say()
            continue
        try:
            look()
            for printed in shell.run(shlex.split(line)):
                say(printed)
        except (click.ClickException, ValueError) as error:  # the cluster may be back at the next command
            say(str(error), err=True)


def _prepare_completion(shell: Shell) -> None:
    try:
        import readline
    except ImportError:  # not every Python has it; lines are then read without it
        return

    def complete(text: str, state: int) -> str | None:
        found = shell.complete(text, is_first=readline.get_begidx() == 0)
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
