"""Each command finds the function that decides on it, and only commands do."""

from inspect import signature

import pytest

from penstock.controller.decisions import DECISIONS, decision_on, is_command
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.requests.api import ApiKey, api_of


@pytest.mark.parametrize("key", DECISIONS, ids=lambda key: key.name)
def test_each_command_finds_its_decision(key: ApiKey) -> None:
    command = api_of(key).request_class()
    decide = decision_on(command)
    state, request, now = signature(decide, eval_str=True).parameters.values()
    assert (state.name, request.annotation, now.annotation) == ("state", type(command), int)
    assert is_command(command)


def test_other_requests_are_no_commands() -> None:
    assert not is_command(HeartbeatRequest())
    with pytest.raises(AssertionError, match="HeartbeatRequest is no command"):
        decision_on(HeartbeatRequest())
