"""`python -m examples.raft_kv`: a server of the store, its client, and who may vote in it."""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Awaitable, Sequence
from typing import Any

from examples.raft_kv.client import ClientOptions, KvClient, StoreError
from examples.raft_kv.server import start_server
from penstock.client.admin.quorum import QuorumInfo
from penstock.client.errors import ClientError
from penstock.protocol.errors import KafkaError
from penstock.raft.settings import RaftSettings
from penstock.replicated import admin
from penstock.replicated.addresses import ServerAddress, parse_addresses, parse_server, parse_servers
from penstock.replicated.errors import NodeError
from penstock.replicated.options import NodeOptions

NOBODY = ServerAddress("", 0, 0)
DEFAULTS = NodeOptions(servers=(), me=NOBODY, directory="")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        run: Awaitable[None] = options.run(options)
        asyncio.run(run)  # type: ignore[arg-type]  # it is a coroutine
    except (NodeError, StoreError, ClientError, KafkaError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.raft_kv", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    server = commands.add_parser("server", help="run one server until it is stopped")
    server.add_argument("servers", type=_checked(parse_servers), help="host:port:id of all servers, commas between")
    server.add_argument("me", type=_checked(parse_server), help="host:port:id of this one")
    server.add_argument("--data-dir", help="where it keeps log and snapshots (default: raft-kv-data/ID)")
    server.add_argument("--snapshot-min-log-size", type=int, default=DEFAULTS.snapshot_min_log_size, metavar="BYTES")
    server.add_argument(
        "--snapshot-period-seconds", type=float, default=DEFAULTS.snapshot_period_seconds, metavar="SECONDS"
    )
    server.add_argument("--max-segment-file-size", type=int, default=DEFAULTS.max_segment_file_size, metavar="BYTES")
    server.add_argument("--values", choices=("memory", "sqlite"), default="memory", help="where they lie")
    server.add_argument("--reads", choices=("lease", "log"), default="lease", help="how they are linearizable")
    server.set_defaults(run=_server)

    client = commands.add_parser("client", help="set a key, or get it")
    client.add_argument("addresses", type=_checked(parse_addresses), help="host:port of servers, commas between")
    client.add_argument("key")
    client.add_argument("value", nargs="?", help="without it the key is read")
    client.add_argument("--timeout", type=float, default=ClientOptions().timeout_s, metavar="SECONDS")
    client.set_defaults(run=_client)

    peers = commands.add_parser("admin", help="who leads and who votes")
    peers.add_argument("addresses", type=_checked(parse_addresses), help="host:port of servers, commas between")
    actions = peers.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("leader", help="print the leader").set_defaults(run=_leader)
    actions.add_parser("configuration", help="print all servers").set_defaults(run=_configuration)
    add = actions.add_parser("add-peers", help="let servers vote that run already")
    add.add_argument("servers", type=_checked(parse_servers), help="host:port:id, commas between")
    add.set_defaults(run=_add_peers)
    remove = actions.add_parser("remove-peers", help="let servers vote no longer")
    remove.add_argument("servers", type=_checked(parse_servers), help="host:port:id, commas between")
    remove.set_defaults(run=_remove_peers)
    return parser


def _checked(parse: Any) -> Any:
    """argparse shows the text of its own error only."""

    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


async def _server(options: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    data_dir = options.data_dir or f"raft-kv-data/{options.me.id}"
    node = NodeOptions(
        servers=tuple(options.servers),
        me=options.me,
        directory=data_dir,
        cluster_id="kv",
        snapshot_min_log_size=options.snapshot_min_log_size,
        snapshot_period_seconds=options.snapshot_period_seconds,
        max_segment_file_size=options.max_segment_file_size,
        quorum=RaftSettings(leases=options.reads == "lease"),
    )
    server = await start_server(node, keeps_values_in=options.values)
    print(f"server {options.me} listens; its data is in {data_dir}", flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.run_until(stopped)


async def _client(options: argparse.Namespace) -> None:
    key, value = options.key, options.value
    async with KvClient(options.addresses, ClientOptions(timeout_s=options.timeout)) as client:
        if value is not None:
            await client.set(key.encode(), value.encode())
            print("set request, key=%s value=%s response=%s" % (key, value, _json({"success": True})))  # noqa: UP031
            return
        found = (await client.get(key.encode())).value
        text = None if found is None else found.decode(errors="replace")
        print(text or "")
        response: dict[str, object] = {} if text is None else {"value": text}
        print("get request, key=%s, response=%s" % (key, _json(response)))  # noqa: UP031


async def _leader(options: argparse.Namespace) -> None:
    info = await admin.describe(options.addresses)
    print(f"{_server_text(info, info.leader_id)} leads epoch {info.leader_epoch}")


async def _configuration(options: argparse.Namespace) -> None:
    info = await admin.describe(options.addresses)
    for voter in info.voters:
        role = "leader" if voter.node_id == info.leader_id else "voter"
        print(f"{_server_text(info, voter.node_id)} {role}, log end offset {voter.log_end_offset}")
    for observer in info.observers:
        print(f"{_server_text(info, observer.node_id)} observer, log end offset {observer.log_end_offset}")


async def _add_peers(options: argparse.Namespace) -> None:
    await admin.add_peers(options.addresses, options.servers)
    await _configuration(options)


async def _remove_peers(options: argparse.Namespace) -> None:
    await admin.remove_peers(options.addresses, [server.id for server in options.servers])
    await _configuration(options)


def _server_text(info: QuorumInfo, node_id: int) -> str:
    """As the command line names it; where its address is unknown, its id."""
    return next((f"{row.host}:{row.port}:{node_id}" for row in info.endpoints.get(node_id, ())), str(node_id))


def _json(response: dict[str, object]) -> str:
    return json.dumps(response, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
