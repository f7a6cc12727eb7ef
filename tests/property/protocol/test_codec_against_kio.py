"""For every message and version: our bytes are kio's bytes, and each side reads what the other wrote."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from tests.property.protocol.kio_twin import Case, cases, kio_bytes, kio_message, strategy, to_kio

from penstock.protocol.codec import decode, encode
from penstock.protocol.schema import Message

CASES = cases()


def test_all_of_kafka_is_covered() -> None:
    assert len(CASES) > 600


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_bytes_both_ways(case: Case) -> None:
    kio_class, our_class = case.kio_class, case.our_class

    @settings(max_examples=8, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy(kio_class, our_class))
    def check(message: Message) -> None:
        twin = to_kio(message, kio_class)
        data = encode(message, case.version)
        assert data == kio_bytes(twin)
        assert decode(our_class, case.version, data) == (message, len(data))
        assert decode(our_class, case.version, memoryview(b"?" + data), 1) == (message, len(data) + 1)
        assert kio_message(kio_class, data) == twin

    check()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_defaults_are_kios(case: Case) -> None:
    twin = to_kio(case.our_class(), case.kio_class)
    for item in dataclasses.fields(case.kio_class):
        if item.default is not dataclasses.MISSING:
            assert getattr(twin, item.name) == item.default, item.name
