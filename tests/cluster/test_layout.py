"""How the nodes of a cluster for tests are laid out, without starting them."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from penstock.log.directories.meta_properties import read_meta_properties
from penstock.log.disk import Disk
from penstock.metadata.configs.voters import InitialController
from penstock.node.assembly.first_voters import read_first_voters
from penstock.testing import Cluster
from penstock.testing.cluster_node import ClusterNode


def cluster_id(node: ClusterNode) -> str:
    lines = (node.directory / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id="))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"nodes": 0}, "at least one node"),
        ({"brokers": 2}, "both brokers and controllers"),
        ({"brokers": 2, "controllers": 0}, "both brokers and controllers"),
        ({"nodes": 3, "brokers": 2, "controllers": 1}, "either nodes, or both"),
    ],
)
def test_numbers_that_make_no_cluster(arguments: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Cluster(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["node.id", "log.dirs", "controller.quorum.voters"])
def test_keys_that_are_the_clusters_own(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is what the cluster sets itself"):
        Cluster(nodes=2, config={key: "1"})


def test_nodes_share_a_cluster_and_nothing_else(tmp_path: Path) -> None:
    cluster = Cluster(nodes=3, directory=tmp_path)
    assert [node.id for node in cluster.nodes] == [1, 2, 3]
    assert len({cluster_id(node) for node in cluster.nodes}) == 1
    addresses = cluster.bootstrap_servers.split(",") + cluster.bootstrap_controllers.split(",")
    assert len(set(addresses)) == 6
    assert cluster.node(2) is cluster.nodes[1]
    with pytest.raises(KeyError):
        cluster.node(4)
    again = Cluster(nodes=3, directory=tmp_path)
    assert cluster_id(again.nodes[0]) == cluster_id(cluster.nodes[0]), "the data stays what it is"
    again.close()
    cluster.close()


def first_voters(node: ClusterNode) -> dict[int, InitialController]:
    return read_first_voters(Disk(), str(node.directory))


def directory_id(node: ClusterNode) -> UUID | None:
    identity = read_meta_properties(Disk(), str(node.directory))
    return None if identity is None else identity.directory_id


def test_the_first_voters_are_told_to_every_controller(tmp_path: Path) -> None:
    cluster = Cluster(brokers=1, controllers=2, dynamic_voters=True, directory=tmp_path)
    told = first_voters(cluster.node(2))
    assert {node_id: f"{voter.host}:{voter.port}" for node_id, voter in told.items()} == {
        2: cluster.node(2).controller_address,
        3: cluster.node(3).controller_address,
    }
    assert first_voters(cluster.node(3)) == told
    assert first_voters(cluster.node(1)) == {}
    assert [voter.directory_id for voter in told.values()] == [directory_id(node) for node in cluster.nodes[1:]]
    cluster.close()


def test_formatting_that_was_interrupted_is_finished_and_a_lost_disk_is_no_voter(tmp_path: Path) -> None:
    cluster = Cluster(nodes=2, dynamic_voters=True, directory=tmp_path)
    told = first_voters(cluster.node(1))
    shutil.rmtree(cluster.node(2).directory)
    again = Cluster(nodes=2, dynamic_voters=True, directory=tmp_path)
    assert first_voters(again.node(2)) == told
    assert directory_id(again.node(2)) == told[2].directory_id
    (again.node(1).directory / "__cluster_metadata-0" / "quorum-state").write_text("it has run")
    shutil.rmtree(cluster.node(2).directory)
    third = Cluster(nodes=2, dynamic_voters=True, directory=tmp_path)
    assert first_voters(third.node(2)) == {}
    assert directory_id(third.node(2)) not in (None, told[2].directory_id)
    for made in (cluster, again, third):
        made.close()
