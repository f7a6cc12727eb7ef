"""`penstock start --nodes N`: a local cluster of several processes, for people who want to look.

This process starts the nodes, says where they are, passes on what they say, and stops them. A node that ends by itself
is told of, and the others go on.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from penstock import __version__
from penstock.cli.nodes.local_nodes import LocalCluster, LocalNode, local_cluster
from penstock.cli.nodes.start_console import run_beside, write_users
from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say, say_in_place
from penstock.metadata.configs.pairs import PropertiesError
from penstock.node.assembly.properties import ENVIRONMENT_PREFIX, parse_override
from penstock.testing.layout import OWN_KEYS
from penstock.testing.quorum_view import IN_THE_CLEAR, PAUSE_S, known_brokers, way_of
from penstock.testing.secured.settings import JAVA_FILE
from penstock.testing.secured.users import ADMIN, APP

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAID_FOR_ALL: Final = ("Penstock ", "  ", "stopping", "stopped")
"""Lines that begin so are said once for all nodes."""
LOGGED: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ")
CONSOLE_USERS: Final = "console-users.properties"
MAX_LINE_BYTES: Final = 1 << 20
ANNOUNCED: Final = "  to stop "
"""With this line a node has said where it is."""
ACQUAINTED_S: Final = 60.0
"""How long nodes that serve are waited for to know each other."""


class Child:
    """`ready` is done when the node serves, or when it has ended before."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self.ready = asyncio.Event()
        self.serves = False
        self.held: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._unsent: signal.Signals | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    async def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
        """Waits for the end; returns the exit code. What the node says besides its announcement is passed on."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock", "start", str(self.node.file), "--until-eof", *arguments),
            stdin=asyncio.subprocess.PIPE,  # it ends with this process, however that ends: then the node stops, too
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            limit=MAX_LINE_BYTES,
            process_group=0,  # Ctrl-C is for this process, which then stops the nodes
        )
        assert self._process.stdout is not None
        if self._unsent is not None:
            self.send(self._unsent)
        try:
            async for line in self._process.stdout:
                self._take(line.decode(errors="replace").rstrip("\n"))
            return await self._process.wait()
        finally:
            self.ready.set()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """Waits for the process to begin; a process that has ended gets nothing."""
        if self._process is None:
            self._unsent = number
        elif self.is_running:
            self._process.send_signal(number)

    def _take(self, line: str) -> None:
        if line.startswith(ANNOUNCED):
            self.serves = True
            self.ready.set()
        elif not self.serves and LOGGED.match(line):
            self.held.append(line)  # that its peers do not answer yet, say: of interest only if it does not start
        elif not line.startswith(SAID_FOR_ALL):
            _say(f"node {self.node.node_id}: {line}")


class Nodes:
    def __init__(self, cluster: LocalCluster, console_port: int | None = None) -> None:
        """With a port, a console runs beside them."""
        self._cluster = cluster
        self._console_port = console_port
        self._children = [Child(node) for node in cluster.nodes]
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._failed = False

    async def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Until a signal comes or the last node has ended; whether all was well."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop)
        self._tasks = [asyncio.create_task(self._watch(child, arguments, environment)) for child in self._children]
        everything = asyncio.gather(*self._tasks)
        console: asyncio.Task[None] | None = None
        if await self._come_up():
            self._announce()
            console = self._start_console()
        await everything
        if console is not None:
            console.cancel()
            await asyncio.wait([console])
        if self._stopping.is_set() and not self._failed:
            _say("stopped")
        return not self._failed

    def _start_console(self) -> asyncio.Task[None] | None:
        if self._console_port is None:
            return None
        servers = ",".join(node.bootstrap_server for node in self._cluster.nodes)
        options: list[str] = []
        if self._cluster.clients is not None:  # whoever is at this machine is not the administrator for that
            users = self._cluster.directory / CONSOLE_USERS
            write_users(users, ADMIN)
            options = ["--command-config", str(self._cluster.clients / ADMIN / JAVA_FILE), "--users", str(users)]
            _say(f"  console     for {ADMIN}, with the password in {users}")
        return asyncio.create_task(run_beside(servers, self._console_port, options))

    def _stop(self) -> None:
        """Stop all nodes cleanly; kill them at the second signal."""
        number = signal.SIGKILL if self._stopping.is_set() else signal.SIGTERM
        if not self._stopping.is_set():
            _say("stopping")
        self._stopping.set()
        for child in self._children:
            child.send(number)

    async def _watch(self, child: Child, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        code = await child.run(arguments, environment)
        if self._stopping.is_set():
            return
        if not child.serves:
            self._failed = True
            _say(*child.held, f"node {child.node.node_id} did not start")
            self._stop()
            return
        left = sum(not task.done() for task in self._tasks) - 1
        rest = "the others go on" if left > 1 else "the other one goes on" if left else "no node is left"
        _say(
            f"node {child.node.node_id} (pid {child.pid}) {_ending(code)}; {rest}; "
            f"to start it again: penstock start {child.node.file}"
        )
        self._failed = self._failed or not left

    async def _come_up(self) -> bool:
        """Returns whether all nodes serve."""
        count = len(self._children)
        waiting = {asyncio.create_task(child.ready.wait()) for child in self._children}
        while waiting:
            up = sum(child.serves for child in self._children)
            _progress(f"starting {count} nodes: {up} of {count} are up")
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if all(child.serves for child in self._children):
            _progress(f"starting {count} nodes: waiting until each knows the others")
            await self._become_acquainted()
        _progress("")
        return all(child.serves for child in self._children) and not self._stopping.is_set()

    async def _become_acquainted(self) -> None:
        """Wait until each node knows all that run, or for a while: a client may ask any of them for any other."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ACQUAINTED_S
        way = IN_THE_CLEAR if self._cluster.clients is None else way_of(self._cluster.clients / ADMIN / JAVA_FILE)
        for child in self._children:
            address = child.node.bootstrap_server
            while not self._stopping.is_set() and loop.time() < deadline:
                running = {one.node.node_id for one in self._children if one.is_running}
                if await asyncio.to_thread(known_brokers, address, way) >= running:
                    break
                await asyncio.sleep(PAUSE_S)

    def _announce(self) -> None:
        cluster = self._cluster
        lines = [f"Penstock {__version__}, cluster {cluster.cluster_id} of {len(cluster.nodes)} nodes"]
        for child in self._children:
            where = ", ".join(child.node.listeners)
            lines.append(f"  {f'node {child.node.node_id}':<11} {where}, pid {child.pid}")
        lines.append(f"  bootstrap   {','.join(node.bootstrap_server for node in cluster.nodes)}")
        if cluster.clients is not None:
            lines.append(f"  clients     {cluster.clients / APP / JAVA_FILE} (for --command-config; or {ADMIN}'s)")
        lines += [
            f"  data in     {cluster.directory}",
            f"  to stop     Ctrl-C, or kill {os.getpid()}",
        ]
        _say(*lines)


def start_nodes(
    count: int,
    directory: Path,
    first_port: int | None,
    overrides: Sequence[str],
    log_level: str,
    *,
    secure: bool,
    console_port: int | None = None,
) -> None:
    """Returns when it is told to stop. `overrides` are those of `--set`, for all nodes."""
    with in_words(PropertiesError):
        given = dict(map(parse_override, overrides))
    for key in OWN_KEYS:
        if key in given:
            raise click.UsageError(f"--set {key}: it differs from node to node; edit node-N.properties instead")
    cluster = local_cluster(directory, count, first_port, secure=secure)
    arguments = ["--log-level", log_level]
    for override in overrides:
        arguments += ["--set", override]
    own = {ENVIRONMENT_PREFIX + key.upper().replace(".", "_") for key in OWN_KEYS}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    for port in cluster.ports:
        port.make_way()
    if not asyncio.run(Nodes(cluster, console_port).run(arguments, environment)):
        raise click.exceptions.Exit(1)


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return "was stopped" if code == 0 else f"ended with exit code {code}"


def _say(*lines: str) -> None:
    """Replaces the line that changes. A terminal that is gone keeps no node from being stopped."""
    _progress("")
    with suppress(OSError):
        say(*lines)


def _progress(text: str) -> None:
    """Shows a line that changes in place, on a terminal only."""
    if sys.stderr.isatty():
        with suppress(OSError):
            say_in_place(text)
