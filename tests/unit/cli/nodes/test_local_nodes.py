"""A cluster on this machine is made once, and found again as it was made."""

import socket
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from penstock.cli.nodes import local_nodes
from penstock.cli.nodes.local_nodes import LocalCluster, local_cluster
from penstock.node.assembly.properties import read_properties


def let_go(cluster: LocalCluster) -> LocalCluster:
    for port in cluster.ports:
        port.release()
    return cluster


def test_its_files_say_what_each_node_is(tmp_path: Path) -> None:
    place = tmp_path / "there"
    made = let_go(local_cluster(place, 3, 0))
    assert [node.node_id for node in made.nodes] == [1, 2, 3]
    assert len(made.ports) == 6
    assert made.clients is None
    assert place.stat().st_mode & 0o777 == 0o700
    ports = [port for node in made.nodes for port in node.ports]
    assert len(set(ports)) == 6
    for node in made.nodes:
        settings = read_properties(node.file)
        assert node.file.stat().st_mode & 0o777 == 0o600
        assert (settings["node.id"], settings["process.roles"]) == (str(node.node_id), "broker,controller")
        assert settings["listeners"] == ",".join(node.listeners)
        assert [one.partition(":")[0] for one in node.listeners] == ["PLAINTEXT", "CONTROLLER"]
        assert settings["log.dirs"] == str(node.data)
        assert node.data == place / f"node-{node.node_id}"
        for other in made.nodes:
            assert f"127.0.0.1:{other.ports[-1]}" in settings["controller.quorum.bootstrap.servers"]
    again = let_go(local_cluster(place, 3, None))
    assert (again.cluster_id, again.nodes) == (made.cluster_id, made.nodes)
    first = int(made.nodes[0].bootstrap_server.rpartition(":")[2])
    assert let_go(local_cluster(place, 3, first)).nodes == made.nodes
    with pytest.raises(click.ClickException, match=r"the nodes in .* have their ports: 127.0.0.1:\d+ and on"):
        local_cluster(place, 3, first + 1)
    with pytest.raises(click.ClickException, match="a cluster of 3 nodes: start it with --nodes 3, or give another"):
        local_cluster(place, 2, None)
    with pytest.raises(click.ClickException, match="has a cluster that is not secured"):
        local_cluster(place, 3, None, secure=True)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        with pytest.raises(click.ClickException, match="if this cluster does not run already, stop what uses it"):
            local_cluster(place, 3, None)
    for port in made.ports:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port.port))


def test_a_place_is_made_with_those_above_it_or_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "a" / "b", tmp_path / "empty"):
        made = let_go(local_cluster(place, 1, 0))
        assert [node.file for node in made.nodes] == [place / "node-1.properties"]
        assert made.directory == place


def test_places_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    with pytest.raises(click.ClickException, match="has the data of a single node: give another place"):
        local_cluster(tmp_path, 1, 0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "node-1.properties").write_text("node.id=one\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    with pytest.raises(click.ClickException, match=r"node-1.properties: node.id or listeners is missing"):
        local_cluster(tmp_path / "other", 1, 0)
    (tmp_path / "other" / "node-1.properties").write_text("node.id=1\n")
    with pytest.raises(click.ClickException, match=r"node-1.properties: node.id or listeners is missing"):
        local_cluster(tmp_path / "other", 1, 0)
    (tmp_path / "file").write_text("")
    with pytest.raises(click.ClickException, match="Not a directory"):
        local_cluster(tmp_path / "file" / "below", 1, 0)


# -- which ports ------------------------------------------------------------------------------------------------------


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The numbers that are asked for; each is had, and 0 is another one."""
    found: list[list[int]] = []

    def reserved(numbers: Sequence[int], cure: str) -> list[SimpleNamespace]:
        found.append(list(numbers))
        return [SimpleNamespace(port=number or 50_000 + at) for at, number in enumerate(numbers)]

    monkeypatch.setattr(local_nodes, "_reserved", reserved)
    return found


@pytest.mark.parametrize(
    ("port", "numbers"),
    [
        (None, [9092, 19092, 9093, 19093, 9094, 19094]),
        (7000, [7000, 17000, 7001, 17001, 7002, 17002]),
        (0, [0] * 6),
    ],
)
def test_the_ports_of_a_new_cluster(
    port: int | None, numbers: list[int], wanted: list[list[int]], tmp_path: Path
) -> None:
    made = local_cluster(tmp_path / "new", 3, port)
    assert wanted == [numbers]
    had = [number or 50_000 + at for at, number in enumerate(numbers)]
    assert [port for node in made.nodes for port in node.ports] == had
    assert local_cluster(tmp_path / "new", 3, None).nodes == made.nodes
    assert wanted[1:] == [had]
    assert local_cluster(tmp_path / "new", 3, 0).nodes == made.nodes


@pytest.mark.parametrize(
    ("port", "numbers"),
    [(None, [9092, 14092, 19092, 9093, 14093, 19093]), (7000, [7000, 12000, 17000, 7001, 12001, 17001])],
)
def test_the_ports_of_a_new_secured_cluster(
    port: int | None, numbers: list[int], wanted: list[list[int]], tmp_path: Path
) -> None:
    made = local_cluster(tmp_path / "new", 2, port, secure=True)
    assert wanted == [numbers]
    assert [port for node in made.nodes for port in node.ports] == numbers
    assert made.clients == tmp_path / "new" / "clients"
    for secure in (True, False):
        again = local_cluster(tmp_path / "new", 2, None, secure=secure)
        assert (again.cluster_id, again.nodes, again.clients) == (made.cluster_id, made.nodes, made.clients)
