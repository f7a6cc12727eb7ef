"""`penstock start`: run a node, or a local cluster of several, until it is told to stop."""

import asyncio
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.cli.terminal.lines import begin_logging, say
from penstock.log.directories.formatting import any_formatted
from penstock.log.disk import Disk
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PropertiesError
from penstock.node.assembly.properties import load_config
from penstock.node.environment.event_loop import LEAVES_NO_CIRCLES, new_event_loop
from penstock.node.serving.memory import hold_briefly, keep_for_good, share_memory

if TYPE_CHECKING:
    from penstock.node.assembly.quorum_start import QuorumParts
    from penstock.node.assembly.start import RunningNode

logger = logging.getLogger(__name__)

MAX_NODES = 99
MAX_PORT = 55_000
NODES_DIRECTORY = "penstock-data"
WAITING_S = 3
"""After this time the node says what it waits for."""
WORKER_S = 30
"""The time that a worker beside the node gets to end."""
TELLING_S = 1.0
"""The time that the last words of a node get: they may go to the disk that hangs."""
LOG_LEVELS = ("debug", "info", "warning", "error")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTIFY_SOCKET = "NOTIFY_SOCKET"
"""The variable that is set where systemd waits until the node is ready."""


@click.command(short_help="start a node")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key; may be given several times.")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True, help="What to log.")
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), metavar="N", help="Start a local cluster of N processes.")
@click.option("--directory", type=click.Path(path_type=Path), help="With --nodes: where their files are.")
@click.option("--port", type=click.IntRange(0, MAX_PORT), help="With --nodes: the first broker's port; 0 is any.")
@click.option("--secure", is_flag=True, help="With --nodes: TLS, passwords and access rules (docs/security.md).")
@click.option("--worker", is_flag=True, help="Run a Connect worker beside the node, for a look (docs/connect.md).")
@click.option("--worker-port", type=click.IntRange(0, 65_535), default=8083, help="With --worker: where REST listens.")
@click.option("--console", is_flag=True, help="Show the cluster in a browser, from a process beside (docs/console.md).")
@click.option("--console-port", type=click.IntRange(0, 65_535), default=8085, help="With --console: where it listens.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when the standard input ends: its writer has gone.")
def command(
    file: Path | None,
    overrides: tuple[str, ...],
    log_level: str,
    nodes: int | None,
    directory: Path | None,
    port: int | None,
    secure: bool,
    worker: bool,
    worker_port: int,
    console: bool,
    console_port: int,
    until_eof: bool,
) -> None:
    """Start a node and run it until SIGINT (Ctrl-C) or SIGTERM.

    FILE is a Kafka server.properties. Without it an embedded single node listens on 127.0.0.1:9092 and keeps its data
    in ./penstock-data. Variables such as PENSTOCK_NUM_PARTITIONS go before the file, and --set goes before both. New
    directories are formatted; `penstock storage format` does so beforehand, with a cluster id of your choice.

    --nodes 3 starts three nodes instead, each broker and controller, a process each: brokers on 9092, 9093 and 9094,
    controllers 10000 above. Each has a file node-N.properties and a directory in ./penstock-data, with which it starts
    again, together with the others or alone. With --secure a new cluster lets in nobody without a password: the files
    for clients are in ./penstock-data/clients.

    --worker runs a Connect worker in the same process, whose REST interface anybody on this machine may use. --console
    runs `penstock console` beside the nodes, on http://127.0.0.1:8085.
    """
    if nodes is not None:
        if file is not None:
            raise click.UsageError("give either FILE, for one node, or --nodes")
        if worker:
            raise click.UsageError("give either --worker, for one node, or --nodes")
        from penstock.cli.nodes.start_nodes import start_nodes

        where = directory or Path(NODES_DIRECTORY)
        start_nodes(
            nodes, where, port, overrides, log_level, secure=secure, console_port=console_port if console else None
        )
        return
    if directory is not None or port is not None:
        raise click.UsageError("--directory and --port go with --nodes; for one node set log.dirs and listeners")
    if secure:
        raise click.UsageError("--secure goes with --nodes; `penstock security init` makes the files of other nodes")
    try:
        loaded = load_config(file, environment=os.environ, overrides=overrides)
    except (ConfigError, PropertiesError) as error:
        raise click.ClickException(str(error)) from None
    if (worker or console) and not loaded.config.is_broker:
        raise click.UsageError(f"--{'worker' if worker else 'console'} needs a node that is a broker")
    for warning in loaded.warnings:
        say(f"warning: {warning}", err=True)
    if file is not None:
        _tell_of_new_directories(file, loaded.config)
    begin_logging(log_level.upper())
    hold_briefly()
    share_memory()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        beside = {"worker": worker_port} if worker else {}
        beside |= {"console": console_port} if console else {}
        watched = partial(_end_in_time, loaded.config)
        runner.run(_run(loaded.config, until_eof=until_eof, beside=beside, watched=watched))


def _tell_of_new_directories(file: Path, config: BrokerConfig) -> None:
    """A disk that is not mounted looks the same: Kafka does not start then; a node that is its cluster does."""
    if not any_formatted(Disk(), config.all_dirs):
        say(
            f"warning: no log directory of {file} was formatted ({', '.join(config.all_dirs)}): this starts as a new "
            "node; if it had data before, is its disk mounted?",
            err=True,
        )


async def _run(
    config: BrokerConfig, *, until_eof: bool, beside: Mapping[str, int], watched: Callable[[], Callable[[], object]]
) -> None:
    """`beside` has the ports of what else runs; `watched` is called once signals are heard, and what it returns before
    anything is stopped.
    """
    from penstock.node.assembly.start import StartError, start_node

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    on_stop = watched()
    if until_eof:
        loop.add_reader(sys.stdin.fileno(), _stop_at_eof, loop, stop)
    parts: list[QuorumParts] = []
    starting = asyncio.create_task(start_node(config, on_parts=parts.append))
    telling = asyncio.create_task(_tell_of_waiting(config, parts))
    await _first_of(starting, stop)
    telling.cancel()
    if not starting.done():  # it may wait for a controller
        on_stop()
        starting.cancel()
        await asyncio.wait([starting])
        return
    try:
        node = starting.result()
    except StartError as error:
        raise click.ClickException(str(error)) from None
    keep_for_good(as_it_grows=LEAVES_NO_CIRCLES and "worker" not in beside)
    _announce(config, node)
    others = _start_beside(node, beside)
    _tell_service_manager(is_ready=True)
    await _first_of(node.failed, stop)
    on_stop()
    _tell_service_manager(is_ready=False)
    with suppress(OSError):  # the reader may be gone, and the node has to stop all the same
        say("stopping")
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=WORKER_S)
    await node.stop()
    if node.failed.done():
        raise click.ClickException(f"node {config.node_id} had to stop: {node.failed.result()}")
    with suppress(OSError):
        say("stopped")


def _end_in_time(config: BrokerConfig) -> Callable[[], None]:
    """Whatever hangs, a disk's call in the event loop included, also one that hung before anybody asked for an end: a
    thread hears of signals first, and ends the process by the clock or with the second one. Returns what says that the
    node stops for another reason.
    """
    heard, tells = os.pipe()  # until the process ends
    os.set_blocking(tells, False)
    of_loop = signal.set_wakeup_fd(tells)
    threading.Thread(target=_hear, args=(heard, of_loop, config), name="stop", daemon=True).start()
    return partial(_stops, tells)


def _stops(tells: int) -> None:
    os.write(tells, bytes(1))
    for number in STOP_SIGNALS:  # a second signal does not wait
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _hear(heard: int, of_loop: int, config: BrokerConfig) -> None:
    """The numbers of signals, which the loop gets as well, and 0 once the node stops."""
    ends_s = None
    while select.select([heard], [], [], None if ends_s is None else max(0.0, ends_s - time.monotonic()))[0]:
        number = os.read(heard, 1)[0]
        if number in (0, *STOP_SIGNALS):
            if ends_s is None:
                ends_s = time.monotonic() + config.shutdown_timeout_ms / 1000
            elif number:
                os._exit(128 + number)
        if number:
            with suppress(OSError):
                os.write(of_loop, bytes([number]))
    _end(config)


def _end(config: BrokerConfig) -> None:
    words = (
        "node %s has not stopped within shutdown.timeout.ms=%s and ends now: a disk may hang (%s). The next start"
        " recovers what was not written down"
    )
    values = config.node_id, config.shutdown_timeout_ms, ", ".join(map(os.path.abspath, config.all_dirs))
    telling = threading.Thread(target=logger.error, args=(words, *values), daemon=True)
    telling.start()
    telling.join(TELLING_S)
    os._exit(1)


def _start_beside(node: "RunningNode", ports: Mapping[str, int]) -> list[asyncio.Task[None]]:
    endpoint = node.endpoints[0]
    tasks: list[asyncio.Task[None]] = []
    if "worker" in ports:
        from penstock.cli.nodes.start_worker import run_beside as run_worker

        tasks.append(asyncio.create_task(run_worker((endpoint.host, endpoint.port), ports["worker"])))
    if "console" in ports:
        from penstock.cli.nodes.start_console import reachable, run_beside

        tasks.append(asyncio.create_task(run_beside(reachable(endpoint.host, endpoint.port), ports["console"])))
    return tasks


def _tell_service_manager(*, is_ready: bool) -> None:
    address = os.environ.get(NOTIFY_SOCKET)
    if address:
        from penstock.cli.nodes.service_manager import READY, STOPPING, tell

        tell(address, READY if is_ready else STOPPING)


def _stop_at_eof(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Pass over what can be read, and stop the node at the end of the input."""
    if not os.read(sys.stdin.fileno(), 1):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def _tell_of_waiting(config: BrokerConfig, parts: "list[QuorumParts]") -> None:
    """A node of several may have to wait for the others: say what for, less and less often."""
    pause_s = WAITING_S
    while True:
        await asyncio.sleep(pause_s)
        pause_s *= 2
        quorum = parts[0].quorum if parts else None
        if quorum is None or not quorum.is_running:
            continue
        if quorum.hears_leader:
            say(
                f"node {config.node_id} does not serve yet: controller {quorum.leader_id} is active, and has not let "
                "it in"
            )
        else:
            voters = ", ".join(map(str, quorum.quorum.ids)) or "them"
            say(
                f"node {config.node_id} does not serve yet: it waits for the active controller, and controllers need a "
                f"majority of {voters} to run"
            )


async def _first_of(future: "asyncio.Future[Any]", stop: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([future, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


def _announce(config: BrokerConfig, node: "RunningNode") -> None:
    listeners = ", ".join(f"{endpoint.listener}://{endpoint.host}:{endpoint.port}" for endpoint in node.endpoints)
    directories = ", ".join(str(Path(directory).absolute()) for directory in node.log_dirs)
    say(
        f"Penstock {__version__}, node {config.node_id} of cluster {node.cluster_id}",
        f"  listens on  {listeners}",
        f"  data in     {directories}",
        f"  to stop     Ctrl-C, or kill {os.getpid()}",
    )
