"""Which filters of DescribeClientQuotas there are, and what they find."""

import pytest

from penstock.node.api.describe_client_quotas import _matches, _wanted
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_client_quotas import ComponentData

NAMED, DEFAULT, ANY = 0, 1, 2


def wanted(*said: tuple[str, int, str | None]) -> list[ComponentData]:
    return [ComponentData(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in said]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("house", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", NAMED, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "ada")], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_cannot_be(said: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refusal:
        _wanted(wanted(*said))
    assert refusal.value.code == code


ADA, ADAS_CLIENT, ANYBODY = {"user": "ada"}, {"user": "ada", "client-id": "c"}, {"user": None}


@pytest.mark.parametrize(
    ("said", "strict", "found"),
    [
        ([("user", NAMED, "ada")], False, [ADA, ADAS_CLIENT]),
        ([("user", NAMED, "ada")], True, [ADA]),
        ([("user", DEFAULT, None)], False, [ANYBODY]),
        ([("user", ANY, None)], True, [ADA, ANYBODY]),
        ([("user", ANY, None), ("client-id", NAMED, "c")], False, [ADAS_CLIENT]),
        ([("ip", ANY, None)], False, []),
        ([], False, [ADA, ADAS_CLIENT, ANYBODY]),
        ([], True, []),
    ],
)
def test_what_a_filter_finds(
    said: list[tuple[str, int, str | None]], strict: bool, found: list[dict[str, str | None]]
) -> None:
    rules = _wanted(wanted(*said))
    entities: list[dict[str, str | None]] = [ADA, ADAS_CLIENT, ANYBODY]  # type: ignore[list-item]
    assert [one for one in entities if _matches(one, rules, strict=strict)] == found
