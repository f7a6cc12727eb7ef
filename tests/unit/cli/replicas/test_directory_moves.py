"""How far a move between log directories is, as it is told of each replica."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli.replicas.directory_moves import show_moves
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition

HERE, THERE, ELSEWHERE = "/here", "/there", "/elsewhere"
ZERO = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("present", "coming", "told", "goes_on"),
    [
        (THERE, None, "Reassignment of replica t-0-4 completed successfully.", False),
        (HERE, THERE, "Reassignment of replica t-0-4 is still in progress.", True),
        (HERE, ELSEWHERE, "Partition t-0 on broker 4 is being moved to log dir /elsewhere.", True),
        (HERE, None, "Partition t-0 on broker 4 is not being moved from log dir /here.", False),
        (None, None, "Partition t-0 cannot be found in any live log directory on broker 4.", False),
    ],
)
async def test_a_replica_that_shall_move(
    present: str | None, coming: str | None, told: str, goes_on: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        SimpleNamespace(node_id=4, path=path, partitions={ZERO: SimpleNamespace(is_future=is_future)})
        for path, is_future in ((present, False), (coming, True))
        if path is not None
    ]

    async def describe_log_dirs(nodes: list[int]) -> Any:
        assert nodes == [4]
        return found

    admin = cast("Admin", SimpleNamespace(describe_log_dirs=describe_log_dirs))
    assert await show_moves(admin, {(ZERO, 4): THERE}) is goes_on
    assert capsys.readouterr().out == f"{told}\n"
