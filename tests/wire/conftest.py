"""One node for all wire tests: each test uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Cluster


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a node that all tests share."""
    with Cluster(config={"num.partitions": "4"}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = f"{request.node.path.stem}-{request.node.name}"
    return "".join(c if c.isalnum() else "-" for c in name)[:200]
