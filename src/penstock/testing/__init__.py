"""For users too: an embedded cluster and a pytest plugin.

    from penstock.testing import Cluster

    with Cluster() as cluster:
        print(cluster.bootstrap_servers)

Nothing is imported before it is used, so that the pytest plugin costs nothing where it is not.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from penstock.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
