"""Which entities may have quotas."""

import pytest

from penstock.metadata.quotas.entities import MAX_NAME, _problem


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
        ({"user": "u" * (MAX_NAME + 1)}, "is too long"),
        ({}, "Invalid empty client quota entity"),
    ],
)
def test_what_may_have_quotas(entity: dict[str, str | None], words: str | None) -> None:
    problem = _problem(entity)
    assert problem is None if words is None else words in (problem or "")
