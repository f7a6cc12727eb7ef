"""`penstock cluster`: the cluster's id and its brokers, as kafka-cluster.sh tells them; and a broker taken away."""

from pathlib import Path
from typing import Final

import click

from penstock.cli.common.output import print_json, print_table
from penstock.cli.common.session import (
    Reach,
    bootstrap_option,
    command_config_option,
    json_option,
    reach_options,
    run_with_admin,
)
from penstock.cli.replicas.drain import Drain
from penstock.client.admin import Admin

NO_RACK: Final = "null"


@click.group(short_help="describe the cluster")
def command() -> None:
    """Ask a cluster who it is."""


@command.command("cluster-id")
@reach_options
@command_config_option
@json_option
def cluster_id(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: Path | None, as_json: bool
) -> None:
    """Print the cluster's id."""
    reach = Reach.of(bootstrap_server, bootstrap_controller)
    found = run_with_admin(reach, command_config, lambda admin: admin.cluster.refresh()).cluster_id
    if as_json:
        print_json({"cluster_id": found})
    else:
        click.echo(found)


@command.command("describe")
@bootstrap_option
@command_config_option
@click.option("--include-fenced-brokers", is_flag=True, help="Show brokers that are registered but not in service too.")
@json_option
def describe(bootstrap_server: str, command_config: Path | None, include_fenced_brokers: bool, as_json: bool) -> None:
    """Show the cluster's id, its controller and its brokers."""
    description = run_with_admin(
        bootstrap_server,
        command_config,
        lambda admin: admin.describe_cluster(include_fenced=include_fenced_brokers),
    )
    if as_json:
        print_json(
            {
                "cluster_id": description.cluster_id,
                "controller_id": description.controller_id,
                "brokers": [
                    {
                        "node_id": broker.node_id,
                        "host": broker.address.host,
                        "port": broker.address.port,
                        "rack": broker.rack,
                        "is_fenced": broker.is_fenced,
                    }
                    for broker in description.brokers
                ],
            }
        )
        return
    click.echo(f"cluster {description.cluster_id}")
    print_table(
        ["NODE", "ADDRESS", "RACK", "CONTROLLER", "FENCED"],
        [
            (
                broker.node_id,
                str(broker.address),
                broker.rack,
                broker.node_id == description.controller_id,
                broker.is_fenced,
            )
            for broker in description.brokers
        ],
    )


@command.command("list-endpoints")
@reach_options
@command_config_option
@click.option("--include-fenced-brokers", is_flag=True, help="Show brokers that are registered but not in service too.")
def list_endpoints(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
    include_fenced_brokers: bool,
) -> None:
    """List where the brokers can be reached, or with --bootstrap-controller the controllers."""
    reach = Reach.of(bootstrap_server, bootstrap_controller)
    if bootstrap_controller is not None and include_fenced_brokers:
        raise click.UsageError("--include-fenced-brokers: controllers are asked, and they are never fenced")

    async def work(admin: Admin) -> list[tuple[str, ...]]:
        if bootstrap_controller is not None:
            nodes = (await admin.cluster.refresh()).brokers
            rows = [(node, nodes[node].address, nodes[node].rack) for node in sorted(nodes)]
            return [(str(node), at.host, str(at.port), rack or NO_RACK, "controller") for node, at, rack in rows]
        description = await admin.describe_cluster(include_fenced=include_fenced_brokers)
        return [
            (
                str(broker.node_id),
                broker.address.host,
                str(broker.address.port),
                broker.rack or NO_RACK,
                "fenced" if broker.is_fenced else "unfenced",
                "broker",
            )
            for broker in description.brokers
        ]

    rows = run_with_admin(reach, command_config, work)
    state = () if bootstrap_controller is not None else ("STATE",)
    table = [("ID", "HOST", "PORT", "RACK", *state, "ENDPOINT_TYPE"), *rows]
    widths = (
        10,
        max(len(row[1]) for row in rows),
        10,
        max((len(row[3]) for row in rows if row[3] != NO_RACK), default=10),
        *(10 for _ in state),
        15,
    )
    for row in table:
        click.echo(" ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))


@command.command("unregister")
@reach_options
@command_config_option
@click.option("-i", "--id", "node_id", type=click.IntRange(min=0), required=True, help="The broker's node id.")
def unregister(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: Path | None, node_id: int
) -> None:
    """Forget a broker that does not come back. One that still runs registers anew."""
    reach = Reach.of(bootstrap_server, bootstrap_controller)

    async def work(admin: Admin) -> bool:
        """Whether it runs."""
        known = [] if reach.of_controllers else (await admin.describe_cluster()).brokers
        await admin.unregister_broker(node_id)
        return node_id in (broker.node_id for broker in known)

    is_running = run_with_admin(reach, command_config, work)
    click.echo(f"Broker {node_id} is no longer registered.")
    if is_running:
        click.echo("It was in service, and registers anew: stop it, then say this again.", err=True)


@command.command("drain")
@bootstrap_option
@command_config_option
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@click.option(
    "--throttle",
    type=int,
    default=-1,
    metavar="BYTES",
    help="What each broker may send and take a second for the moves; the limit goes when all is done.",
)
@click.option("--keep", is_flag=True, help="Leave the broker registered, and do not wait until it stops.")
def drain(bootstrap_server: str, command_config: Path | None, node_id: int, throttle: int, keep: bool) -> None:
    """Take broker ID out of service: move all its replicas to the others, evenly and with regard to racks.

    Then it waits until the broker is stopped, and unregisters it. Can be interrupted, and gone on with by the same
    command again. Nothing begins if there are too few other brokers for some topic's replicas.
    """

    async def work(admin: Admin) -> None:
        draining = Drain(admin, node_id, throttle)
        await draining.check()
        await draining.run()
        if not keep:
            await draining.forget()

    run_with_admin(bootstrap_server, command_config, work)
