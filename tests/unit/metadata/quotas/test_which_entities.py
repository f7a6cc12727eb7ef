"""Which entities may have quotas."""

from math import inf, nan

import pytest

from penstock.metadata.quotas.entities import (
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP_KEYS,
    MAX_NAME,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    _problem,
    canonical_address,
    check_value,
    keys_of,
)
from penstock.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ({"user": "ada"}, None),
        ({"user": None, "client-id": "c"}, None),
        ({"ip": "10.0.0.1"}, None),
        ({"ip": None}, None),
        ({"ip": "10.0.0.1", "user": "ada"}, "an ip stands alone"),
        ({"ip": "home"}, "home is no IP address"),
        ({"house": "h"}, "Unhandled client quota entity type: house"),
        ({"user": ""}, "Empty user not supported"),
        ({"user": "u" * MAX_NAME}, None),
        ({"user": "u" * (MAX_NAME + 1)}, "is too long"),
        ({}, "Invalid empty client quota entity"),
    ],
)
def test_what_may_have_quotas(entity: dict[str, str | None], words: str | None) -> None:
    problem = _problem(entity)
    assert problem is None if words is None else words in (problem or "")
    if words is None:
        assert keys_of(entity) == (IP_KEYS if "ip" in entity else CLIENT_KEYS)
    else:
        with pytest.raises(KafkaError) as refused:
            keys_of(entity)
        assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, problem)


LARGEST = float(2**63 - 1)
"""Which is 2**63."""


@pytest.mark.parametrize("key", [*CLIENT_KEYS, *IP_KEYS])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (1.0, ""),
        (2.0**31 - 1, ""),
        (2.0**31, f"Proposed value for {CONNECTION_CREATION_RATE} is too large: at most 2147483647"),
        (LARGEST, f"Proposed value for {CONNECTION_CREATION_RATE} is too large: at most 2147483647"),
        (2.0**63 + 2048, "Proposed value for {} is too large: at most {}"),
        (1.5, "{} cannot be a fractional value."),
        (0.5, "{} cannot be a fractional value."),
        (0.0, "Quota {} must be greater than 0, and finite"),
        (-1.0, "Quota {} must be greater than 0, and finite"),
        (inf, "Quota {} must be greater than 0, and finite"),
        (nan, "Quota {} must be greater than 0, and finite"),
    ],
)
def test_what_may_be_limited(key: str, value: float, problem: str) -> None:
    largest = {PRODUCER_BYTE_RATE: 2**63, CONSUMER_BYTE_RATE: 2**63, CONNECTION_CREATION_RATE: 2**31 - 1}
    is_any = key in (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
    if (is_any and "finite" not in problem) or (
        CONNECTION_CREATION_RATE in problem and key != CONNECTION_CREATION_RATE
    ):
        problem = ""
    keys = IP_KEYS if key in IP_KEYS else CLIENT_KEYS
    said = ""
    try:
        check_value(key, value, keys)
    except KafkaError as error:
        said = error.message or ""
    assert said == problem.format(key, largest.get(key))
    others = CLIENT_KEYS if key in IP_KEYS else IP_KEYS
    with pytest.raises(KafkaError, match=f"Invalid configuration key {key}: {', '.join(others)} can be limited here"):
        check_value(key, 1.0, others)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("home", "home"),
    ],
)
def test_an_address_has_one_spelling(text: str, found: str) -> None:
    assert canonical_address(text) == found
