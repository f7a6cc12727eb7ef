"""For users too: an embedded cluster and a pytest plugin.

    from penstock.testing import Cluster

    with Cluster() as cluster:
        print(cluster.bootstrap_servers)

Nothing of the server is imported before a cluster is made.
"""

from penstock.testing.cluster import Cluster

__all__ = ["Cluster"]
