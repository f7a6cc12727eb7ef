"""`penstock cluster`: the cluster's id and its brokers, as kafka-cluster.sh tells them; and a broker taken away."""

from __future__ import annotations

from typing import Final

import click

from penstock.cli.cluster.api_versions import api_versions
from penstock.cli.cluster.health import health
from penstock.cli.replicas.drain import Drain
from penstock.cli.replicas.drain_status import look
from penstock.cli.replicas.replication_throttles import NO_LIMIT, limit_option
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, argument, declared, option
from penstock.cli.terminal.output import as_objects, print_json, print_lines, print_table, show_bytes
from penstock.cli.terminal.session import QUORUM_PATIENCE_MS, BrokerSession, NodeSession
from penstock.client.admin import Admin, ClusterDescription
from penstock.protocol.errors import KafkaError

NO_RACK: Final = "null"
FENCED_TOO: Final = option("Show brokers that are registered but not in service too.")


@click.group(short_help="describe the cluster")
def command() -> None:
    """Ask a cluster who it is."""


@command.command("cluster-id")
@declared
def cluster_id(session: NodeSession, as_json: bool = JSON) -> None:
    """Print the cluster's id."""
    found = session.run(lambda admin: admin.cluster.refresh()).cluster_id
    print_lines([found or ""], {"cluster_id": found}, as_json=as_json)


@command.command("describe")
@declared
def describe(session: BrokerSession, include_fenced_brokers: bool = FENCED_TOO, as_json: bool = JSON) -> None:
    """Show the cluster's id, its active controller and its brokers."""

    async def work(admin: Admin) -> tuple[ClusterDescription, int | None]:
        found = await admin.describe_cluster(include_fenced=include_fenced_brokers)
        try:
            return found, (await admin.quorum.describe()).leader_id  # the answer before names a broker
        except KafkaError as error:
            say(str(error), err=True)
            return found, None

    found, controller_id = session.run(work, patience_ms=QUORUM_PATIENCE_MS)
    if as_json:
        columns = ["node_id", "host", "port", "rack", "is_fenced"]
        rows = [(one.node_id, one.address.host, one.address.port, one.rack, one.is_fenced) for one in found.brokers]
        brokers = as_objects(columns, rows)
        print_json({"cluster_id": found.cluster_id, "controller_id": controller_id, "brokers": brokers})
        return
    say(f"cluster {found.cluster_id}")
    say(f"controller {'unknown' if controller_id is None else controller_id}")
    print_table(
        ["NODE", "ADDRESS", "RACK", "CONTROLLER", "FENCED"],
        [
            (one.node_id, str(one.address), one.rack, one.node_id == controller_id, one.is_fenced)
            for one in found.brokers
        ],
    )


@command.command("list-endpoints")
@declared
def list_endpoints(session: NodeSession, include_fenced_brokers: bool = FENCED_TOO) -> None:
    """List where the brokers can be reached, or with --bootstrap-controller the controllers."""
    if session.of_controllers and include_fenced_brokers:
        raise click.UsageError("--include-fenced-brokers: controllers are asked, and they are never fenced")

    async def work(admin: Admin) -> list[tuple[str, ...]]:
        if session.of_controllers:
            nodes = (await admin.cluster.refresh()).brokers
            rows = [(node, nodes[node].address, nodes[node].rack) for node in sorted(nodes)]
            return [(str(node), at.host, str(at.port), rack or NO_RACK, "controller") for node, at, rack in rows]
        found = await admin.describe_cluster(include_fenced=include_fenced_brokers)
        states = ((one, "fenced" if one.is_fenced else "unfenced") for one in found.brokers)
        return [
            (str(one.node_id), one.address.host, str(one.address.port), one.rack or NO_RACK, state, "broker")
            for one, state in states
        ]

    rows = session.run(work)
    state = () if session.of_controllers else ("STATE",)
    host_width = max((len(row[1]) for row in rows), default=10)
    rack_width = max((len(row[3]) for row in rows if row[3] != NO_RACK), default=10)
    widths = (10, host_width, 10, rack_width, *(10 for _ in state), 15)
    for row in [("ID", "HOST", "PORT", "RACK", *state, "ENDPOINT_TYPE"), *rows]:
        say(" ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))


@command.command("unregister")
@declared
def unregister(
    session: NodeSession, node_id: int = option("The broker's node id.", "-i", "--id", min=0, required=True)
) -> None:
    """Forget a broker that does not come back. One that still runs registers anew."""

    async def work(admin: Admin) -> bool:
        known = [] if session.of_controllers else (await admin.describe_cluster()).brokers
        await admin.unregister_broker(node_id)
        return node_id in (broker.node_id for broker in known)

    is_running = session.run(work)
    say(f"Broker {node_id} is no longer registered.")
    if is_running:
        say("It was in service, and registers anew: stop it, then say this again.", err=True)


@command.command("unregister-controller")
@declared
def unregister_controller(
    session: NodeSession, node_id: int = option("The controller's node id.", "-i", "--id", min=0, required=True)
) -> None:
    """Forget a controller that does not come back and votes no longer. One that still runs registers anew."""
    session.run(lambda admin: admin.unregister_controller(node_id))
    say(f"Controller {node_id} is no longer registered.")


@command.command("drain")
@declared
def drain(
    session: BrokerSession,
    node_id: int = argument(min=0, metavar="ID"),
    throttle: int = limit_option(
        "What each broker may send and take a second for the moves; the limit goes when all is done.",
        default=NO_LIMIT,
    ),
    keep: bool = option("Leave the broker registered, and do not wait until it stops."),
) -> None:
    """Take broker ID out of service: move all its replicas to the others, evenly and with regard to racks.

    It is cordoned first, so that it gets no new replicas (KIP-1066), and stays so with --keep. Other cordoned brokers
    get nothing. Then it waits until the broker is stopped, and unregisters it. Can be interrupted, and gone on with by
    the same command again. Nothing begins if there are too few other brokers for some topic's replicas.
    """

    async def work(admin: Admin) -> None:
        draining = Drain(admin, node_id, throttle)
        await draining.check()
        await draining.run()
        if keep:
            say(draining.reopening)
        else:
            await draining.forget()

    session.run(work)


@command.command("drain-status")
@declared
def drain_status(session: BrokerSession, as_json: bool = JSON) -> None:
    """Show what is left on brokers that are on their way out, whoever began that.

    Shown are brokers that are cordoned or out of service, and those that replicas are leaving, with what to do next.
    """
    found = session.run(look)
    columns = ["BROKER", "IN SERVICE", "CORDONED", "STATE", "REPLICAS", "LEAVING", "WAITING", "LEADS"]
    rows = [
        (it.broker, it.is_in_service, it.is_cordoned, it.state, it.replicas, it.leaving, it.waiting, it.leads)
        for it in found
    ]
    if as_json:
        sizes = [{"disk_bytes": it.disk_bytes} for it in found]
        print_json([row | size for row, size in zip(as_objects(columns, rows), sizes, strict=True)])
        return
    table = [(*row, show_bytes(it.disk_bytes)) for row, it in zip(rows, found, strict=True)]
    print_table([*columns, "DISK"], table, empty="no broker is on its way out")
    for it in found:
        if it.next_step is not None:
            say(it.next_step)


command.add_command(api_versions)
command.add_command(health)
