"""Fixtures for tests against a cluster. They are there wherever Penstock is installed; where plugins are not loaded by
themselves, put `pytest_plugins = ["penstock.testing.pytest_plugin"]` into the `conftest.py` at the root of your tests.

* `penstock_cluster`: a `penstock.testing.Cluster` that the whole session shares.
* `penstock_bootstrap_servers`: its addresses, `host:port`.
* `penstock_config`: the broker keys it is started with; override this fixture to have others.
* `penstock_nodes`: how many nodes it has, one unless you override this fixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster


@pytest.fixture(scope="session")
def penstock_config() -> Mapping[str, str]:
    """Broker keys of the session's cluster, by Kafka's names. Override it in a `conftest.py`."""
    return {}


@pytest.fixture(scope="session")
def penstock_nodes() -> int:
    """The number of nodes of the session's cluster. Override it in a `conftest.py`."""
    return 1


@pytest.fixture(scope="session")
def penstock_cluster(penstock_config: Mapping[str, str], penstock_nodes: int) -> Iterator[Cluster]:
    """One cluster for the whole session; topics that tests make stay until its end."""
    # Not at the top: every run of pytest imports this plugin, and few need a cluster, 60 ms of CPU.
    from penstock.testing.cluster import Cluster

    with Cluster(config=penstock_config, nodes=penstock_nodes) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def penstock_bootstrap_servers(penstock_cluster: Cluster) -> str:
    """`host:port` with commas between."""
    return penstock_cluster.bootstrap_servers
