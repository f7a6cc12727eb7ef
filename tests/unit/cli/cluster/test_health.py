"""Whether a node hears its leader, as `cluster health` has it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli.cluster.health import HEARS_LEADER, _hears_leader
from penstock.client.errors import ConnectionFailedError
from penstock.protocol.requests.own_apis import Metric

GROUP, NAME = HEARS_LEADER


@pytest.mark.parametrize(
    ("told", "hears"),
    [
        ([Metric(group=GROUP, name=NAME, value="1")], True),
        ([Metric(group=GROUP, name=NAME, value="0")], False),
        ([Metric(group=GROUP, name="another", value="0"), Metric(group="another", name=NAME, value="0")], True),
        ([Metric(group=GROUP, name="another", value="0"), Metric(group=GROUP, name=NAME, value="0")], False),
        ([], True),
        (ConnectionFailedError("gone"), None),
    ],
)
async def test_a_node_that_does_not_say_is_believed_to_be_well(told: Any, hears: bool | None) -> None:
    async def metrics_of(node_id: int) -> list[Metric]:
        assert node_id == 3
        if isinstance(told, Exception):
            raise told
        return cast("list[Metric]", told)

    admin = SimpleNamespace(quorum=SimpleNamespace(metrics_of=metrics_of))
    assert await _hears_leader(cast("Any", admin), 3) is hears
