import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError


def test_codes_are_kafkas() -> None:
    assert {code.name.lower(): int(code) for code in ErrorCode} == {code.name: int(code) for code in KioErrorCode}


@pytest.mark.parametrize("code", ErrorCode)
def test_retriable_as_kafka_says(code: ErrorCode) -> None:
    assert KafkaError(code).retriable is KioErrorCode(int(code)).retriable


def test_an_error_reads_as_its_name_and_message() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms: -5")) == "INVALID_CONFIG: retention.ms: -5"
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"


def test_a_decode_error_is_no_kafka_error() -> None:
    assert not issubclass(DecodeError, KafkaError)
