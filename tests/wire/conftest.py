"""One node for all wire tests: each test uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.wire.connect_asking import Asking, one_alone, two_that_share

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


@pytest.fixture
async def sharing(bootstrap: str, topic: str) -> AsyncIterator[Asking]:
    """Requests to workers that share connectors."""
    async with two_that_share(bootstrap, topic) as asking:
        yield asking


@pytest.fixture
async def alone(bootstrap: str, tmp_path: Path) -> AsyncIterator[Asking]:
    """Requests to a worker that has its connectors for itself."""
    async with one_alone(bootstrap, tmp_path) as asking:
        yield asking


@pytest.fixture(params=["sharing", "alone"])
def asking(request: pytest.FixtureRequest) -> Asking:
    """Requests to workers of either kind."""
    found: Asking = request.getfixturevalue(request.param)
    return found
