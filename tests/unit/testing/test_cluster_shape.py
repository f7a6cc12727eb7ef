"""Which nodes a cluster of a test has."""

from typing import Any

import pytest

from penstock.testing import Cluster

PROBLEM = "give either nodes, or both brokers and controllers, each at least 1"


@pytest.mark.parametrize(
    ("asked", "ids"),
    [({}, [1]), ({"nodes": 2}, [1, 2]), ({"brokers": 2, "controllers": 1}, [1, 2, 3]), ({"nodes": 1}, [1])],
)
def test_it_has_so_many(asked: dict[str, int], ids: list[int]) -> None:
    cluster = Cluster(**asked)  # type: ignore[arg-type]
    assert [node.id for node in cluster.nodes] == ids
    assert [cluster.node(one).id for one in ids] == ids
    assert cluster._secured is None


@pytest.mark.parametrize("asked", [{"controllers": 3}, {"brokers": 3}, {"nodes": 2, "brokers": 1, "controllers": 1}])
def test_what_makes_no_cluster_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=PROBLEM):
        Cluster(**asked)


@pytest.mark.parametrize("more", [{}, {"nodes": 2}, {"process": True}])
def test_a_network_is_between_processes(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="network=True needs several nodes and process=True"):
        Cluster(network=True, **more)
