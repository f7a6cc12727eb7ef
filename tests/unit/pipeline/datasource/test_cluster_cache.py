"""Clusters that are lent to task after task: each again, those of some settings, and no more."""

import pytest

from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.pipeline.datasource import cluster_cache
from penstock.pipeline.datasource.cluster_cache import MOST_IDLE, borrowed_cluster
from penstock.protocol.address import Address


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_cache, "_idle", type(cluster_cache._idle)())


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[BlockingCluster]:
    found: list[BlockingCluster] = []
    monkeypatch.setattr(BlockingCluster, "close", lambda cluster: found.append(cluster))
    return found


def lent(number: int) -> BlockingCluster:
    with borrowed_cluster(ClusterSettings((Address("localhost", 9000 + number),))) as cluster:
        return cluster


def test_the_one_that_was_not_lent_for_longest_is_closed(closed: list[BlockingCluster]) -> None:
    first, second, *_ = [lent(number) for number in range(MOST_IDLE)]
    assert lent(0) is first
    assert closed == []
    lent(MOST_IDLE)
    assert closed == [second]
    assert lent(0) is first


def test_one_that_failed_or_was_lent_beside_another_is_closed(closed: list[BlockingCluster]) -> None:
    settings = ClusterSettings((Address("localhost", 9000),))
    with borrowed_cluster(settings) as one, borrowed_cluster(settings) as other:
        assert one is not other
    assert closed == [one]
    with pytest.raises(ValueError, match="failed"), borrowed_cluster(settings) as again:
        raise ValueError("failed")
    assert again is other
    assert closed == [one, other]
