"""What has ended a client for good is told at each call, and gathers no frames of those who were told before."""

import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.errors import ProducerFencedError
from penstock.client.producer.transactions import Transactions
from penstock.client.share.heartbeats import ShareHeartbeats

ERROR = ProducerFencedError("it has ended")
BEATS = SimpleNamespace(take_ending=lambda: None)
ENDED: Any = SimpleNamespace(
    error=ERROR, _error=ERROR, _fenced=ERROR, _heartbeats=BEATS, _is_silent=lambda now_s: False
)


@pytest.mark.parametrize(
    "call",
    [AssignedMembership.polled, GroupMembership.polled, ShareHeartbeats.polled, Transactions._check_not_fenced],
    ids=lambda call: call.__qualname__,
)
async def test_an_error_that_is_told_again_is_as_short_as_the_first_time(call: Callable[[Any], None]) -> None:
    lengths = []
    for _ in range(3):
        with pytest.raises(ProducerFencedError) as raised:
            call(ENDED)
        assert raised.value is ERROR
        lengths.append(len(traceback.extract_tb(ERROR.__traceback__)))
    assert lengths == [lengths[0]] * 3
