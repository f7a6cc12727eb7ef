"""Which quota holds: all eight levels, as the tests of Kafka's ClientQuotaManager have them."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.unit.metadata.quotas.records import quota

from penstock.metadata.quotas.limits import Limit, QuotaLimits, Share

KEY = "producer_byte_rate"
LEVELS: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({"user": "ada", "client_id": "c"}, ("ada", "c")),
    ({"user": "ada", "client_id": None}, ("ada", "c")),
    ({"user": "ada"}, ("ada", None)),
    ({"user": None, "client_id": "c"}, ("ada", "c")),
    ({"user": None, "client_id": None}, ("ada", "c")),
    ({"user": None}, ("ada", None)),
    ({"client_id": "c"}, (None, "c")),
    ({"client_id": None}, (None, "c")),
]
"""From the most exact one on: the entity, and who share its limit where ada's client c falls under it."""


def test_the_most_exact_of_all_that_are_set_holds() -> None:
    for count in range(1, len(LEVELS) + 1):
        for levels in combinations(range(len(LEVELS)), count):
            limits = QuotaLimits()
            for level in reversed(levels):
                limits.apply(quota(KEY, level + 1, **LEVELS[level][0]))
            expected = Limit(levels[0] + 1, Share(KEY, *LEVELS[levels[0]][1]))
            assert limits.of_client(KEY, "ada", "c") == expected


def test_what_is_removed_gives_way_to_the_next_level() -> None:
    limits = QuotaLimits()
    for level, (entity, _) in enumerate(LEVELS):
        limits.apply(quota(KEY, level + 1, **entity))
    for level, (entity, _) in enumerate(LEVELS):
        found = limits.of_client(KEY, "ada", "c")
        assert found is not None
        assert found.value == level + 1
        limits.apply(quota(KEY, None, **entity))
    assert limits.of_client(KEY, "ada", "c") is None
    assert not limits


@pytest.mark.parametrize("entity", [*(entity for entity, _ in LEVELS), {"ip": "192.0.2.7"}, {"ip": None}], ids=str)
def test_a_quota_of_any_kind_alone_is_one(entity: dict[str, str | None]) -> None:
    limits = QuotaLimits()
    limits.apply(quota(KEY, 1, **entity))
    assert limits
    limits.apply(quota(KEY, None, **entity))
    assert not limits


def test_others_are_not_under_it() -> None:
    limits = QuotaLimits()
    limits.apply(quota(KEY, 1, user="ada", client_id="c"))
    limits.apply(quota(KEY, 2, client_id="d"))
    assert limits.of_client(KEY, "ada", "e") is None
    assert limits.of_client(KEY, "bob", "c") is None
    assert limits.of_client("consumer_byte_rate", "ada", "c") is None
    assert limits.of_client(KEY, "bob", "d") == Limit(2, Share(KEY, None, "d"))


def test_a_client_without_an_id_is_under_those_of_its_user() -> None:
    limits = QuotaLimits()
    limits.apply(quota(KEY, 1, user="ada"))
    limits.apply(quota(KEY, 2, client_id=None))
    assert limits.of_client(KEY, "ada", "") == Limit(1, Share(KEY, "ada", None))
    assert limits.of_client(KEY, "bob", "") == Limit(2, Share(KEY, None, ""))


def test_each_key_has_its_own_level() -> None:
    limits = QuotaLimits()
    limits.apply(quota(KEY, 1, user="ada"))
    limits.apply(quota("consumer_byte_rate", 2, client_id=None))
    assert limits.of_client(KEY, "ada", "c") == Limit(1, Share(KEY, "ada", None))
    assert limits.of_client("consumer_byte_rate", "ada", "c") == Limit(2, Share("consumer_byte_rate", None, "c"))


def test_an_address_in_any_spelling_or_the_default_of_all() -> None:
    limits = QuotaLimits()
    assert limits.of_ip("connection_creation_rate", "10.0.0.1") is None
    limits.apply(quota("connection_creation_rate", 1, ip="2001:DB8:0:0::1"))
    limits.apply(quota("connection_creation_rate", 2, ip="10.0.0.1"))
    limits.apply(quota("connection_creation_rate", 3, ip=None))
    found = {
        address: limits.of_ip("connection_creation_rate", address)
        for address in ("2001:db8::1", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2")
    }
    assert [(one.value, one.share.user) for one in found.values() if one is not None] == [
        (1, "2001:db8::1"),
        (2, "10.0.0.1"),
        (2, "10.0.0.1"),
        (3, "10.0.0.2"),
    ]
