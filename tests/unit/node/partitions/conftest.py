"""A follower and its leader, for all that asks what the follower does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.node.followed import Followed


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    one = Followed(tmp_path)
    await one.asked(1)
    yield one
    await one.fetcher.stop()
