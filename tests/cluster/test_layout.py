"""How the nodes of a cluster for tests are laid out, without starting them."""

from pathlib import Path

import pytest

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
