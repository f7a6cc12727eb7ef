"""The operating system's errors in a few words."""

import socket

import pytest

from penstock.client.errors import ClusterUnreachableError, raise_for, reason, unreachable
from penstock.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(), "connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "connection refused"),
        (OSError(111, "Connect call failed"), "connection refused"),
        (OSError(113, "Connect call failed ('h', 1)"), "no route to host"),
        (PermissionError(1, "what the loop says"), "operation not permitted"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (OSError("Some words"), "some words"),
        (ValueError("Some words"), "some words"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_reasons(error: Exception, words: str) -> None:
    assert reason(error) == words


def test_the_first_words_about_an_error_are_told() -> None:
    raise_for(0, "all is well")
    with pytest.raises(KafkaError, match="about") as raised:
        raise_for(ErrorCode.INVALID_REQUEST, None, "", "about", "more")
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TimeoutError(), "no answer within 70 ms"),
        (TimeoutError(110, "Connection timed out"), "connection timed out"),
        (ConnectionRefusedError(111, "refused"), "connection refused"),
        (OSError("some words"), "some words"),
    ],
)
def test_a_time_out_of_ours_is_told_with_its_length(error: OSError, why: str) -> None:
    told = unreachable("h:1", error, 70)
    assert (type(told), str(told)) == (ClusterUnreachableError, f"cannot reach h:1 ({why})")
