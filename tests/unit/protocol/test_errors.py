import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError

NEWER = {
    "group_deletion_failed": 134,
    "streams_topology_description_update_failed": 135,
    "controller_id_not_registered": 136,
}
"""What Kafka 4.4 has and kio does not know; none of them may pass when the request is repeated."""


def test_codes_are_kafkas() -> None:
    kafkas = {code.name: int(code) for code in KioErrorCode} | NEWER
    assert {code.name.lower(): int(code) for code in ErrorCode} == kafkas


@pytest.mark.parametrize("code", ErrorCode)
def test_retriable_as_kafka_says(code: ErrorCode) -> None:
    is_known = int(code) not in NEWER.values()
    assert KafkaError(code).retriable is (is_known and KioErrorCode(int(code)).retriable)


def test_an_error_reads_as_its_name_and_message() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: -5")) == "INVALID_CONFIG: retention.ms: -5"
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"


def test_a_decode_error_is_no_kafka_error() -> None:
    assert not issubclass(DecodeError, KafkaError)
