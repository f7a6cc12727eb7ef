"""`penstock cluster api-versions`: which APIs each node serves in which versions, as Kafka's tools print it.

`penstock broker-api-versions` is its name from before Kafka 4.4, for brokers alone.
"""

from collections.abc import Mapping
from typing import Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared
from penstock.cli.terminal.output import print_json
from penstock.cli.terminal.session import BrokerSession, NodeSession
from penstock.client.admin import Admin
from penstock.client.errors import ClientError
from penstock.client.metadata import BrokerMetadata
from penstock.protocol.requests.api import KEYS, ApiKey, api_of
from penstock.protocol.value import Value

OF_CONTROLLERS: Final = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
}
"""No broker serves them: a node without them lacks nothing that clients want."""
Served = Mapping[int, tuple[int, int]]


class NodeVersions(Value):
    """What a node serves, by the keys of APIs; or why that is not known."""

    node: BrokerMetadata
    served: Served
    error: ClientError | None = None


@click.command("api-versions")
@declared
def api_versions(session: NodeSession, as_json: bool = JSON) -> None:
    """Show which APIs each broker serves in which versions, or with --bootstrap-controller each controller."""
    _show(session.run(versions_of_nodes), as_json=as_json)


@click.command("broker-api-versions", short_help="show which APIs each broker serves in which versions")
@declared
def command(session: BrokerSession, as_json: bool = JSON) -> None:
    """Show which APIs each broker serves in which versions; `penstock cluster api-versions` says the same."""
    _show(session.run(versions_of_nodes), as_json=as_json)


async def versions_of_nodes(admin: Admin) -> list[NodeVersions]:
    nodes = (await admin.cluster.refresh([])).brokers
    return [await _versions_of(admin, nodes[node_id]) for node_id in sorted(nodes)]


async def _versions_of(admin: Admin, node: BrokerMetadata) -> NodeVersions:
    try:
        return NodeVersions(node, (await admin.cluster.connection(node.node_id)).served)
    except ClientError as error:
        return NodeVersions(node, {}, error)


def _show(found: list[NodeVersions], *, as_json: bool) -> None:
    if as_json:
        print_json([_as_json(one) for one in found])
    else:
        for one in found:
            say(*_lines(one))
    if any(one.error is not None for one in found):
        raise click.exceptions.Exit(1)


def _lines(one: NodeVersions) -> list[str]:
    node = one.node
    name = f"{node.address} (id: {node.node_id} rack: {node.rack or 'null'} isFenced: false) -> "
    if one.error is not None:
        return [f"{name}ERROR: {one.error}"]
    missing = set(ApiKey) - OF_CONTROLLERS - one.served.keys()
    rows = [_row(key, one.served.get(key)) for key in sorted(missing | one.served.keys())]
    return [f"{name}(", *(f"\t{row}," for row in rows[:-1]), f"\t{rows[-1]}", ")"]


def _row(key: int, served: tuple[int, int] | None) -> str:
    if key not in KEYS:
        return f"UNKNOWN({key}): {_range(served)}"
    name = f"{api_of(key).name}({key}): "
    if served is None:
        return f"{name}UNSUPPORTED"
    usable = api_of(key).agreed_version(served)
    if usable is not None:
        return f"{name}{_range(served)} [usable: {usable}]"
    age = "new" if served[0] > api_of(key).versions[-1] else "old"
    return f"{name}{_range(served)} [unusable: node too {age}]"


def _range(served: tuple[int, int] | None) -> str:
    lowest, newest = served or (0, 0)
    return str(lowest) if lowest == newest else f"{lowest} to {newest}"


def _as_json(one: NodeVersions) -> dict[str, object]:
    apis = [
        {
            "api_key": key,
            "name": api_of(key).name if key in KEYS else None,
            "min_version": lowest,
            "max_version": newest,
            "usable": api_of(key).agreed_version((lowest, newest)) if key in KEYS else None,
        }
        for key, (lowest, newest) in sorted(one.served.items())
    ]
    return {
        "node_id": one.node.node_id,
        "host": one.node.address.host,
        "port": one.node.address.port,
        "rack": one.node.rack,
        "error": None if one.error is None else str(one.error),
        "apis": apis,
    }
