"""What a producer is told about records that cannot be taken."""

import pytest
from tests.wire.raw_client import TRANSACTION, RawClient, batch_of

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.records import Record, encode_batch

NOW = 1_700_000_000_000
DEFAULT_LIMIT = 1_048_588


def test_keyless_records_of_a_compacted_topic_are_named_by_index(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"cleanup.policy": "compact"})
    keys = [b"a", None, b"b", None]
    answer = client.produce(topic, bytes(encode_batch([Record(i, NOW, key, b"v") for i, key in enumerate(keys)])))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    assert answer.error_message
    assert client.fetch(topic, 0).high_watermark == 0


def test_max_message_bytes_of_the_topic(client: RawClient, topic: str) -> None:
    batch = batch_of(b"v" * 1000)
    client.create_topic(topic, configs={"max.message.bytes": str(len(batch))})
    assert client.produce(topic, batch).error_code == ErrorCode.NONE
    assert client.produce(topic, batch_of(b"v" * 1001)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_message_max_bytes_of_the_broker(client: RawClient, created: str) -> None:
    overhead = len(batch_of(b"v" * 1_000_000)) - 1_000_000
    assert client.produce(created, batch_of(b"v" * (DEFAULT_LIMIT - overhead))).error_code == ErrorCode.NONE
    too_large = batch_of(b"v" * (DEFAULT_LIMIT - overhead + 1))
    assert len(too_large) == DEFAULT_LIMIT + 1
    assert client.produce(created, too_large).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
def test_a_time_out_of_transactions_is_neither_nothing_nor_too_long(client: RawClient, timeout_ms: int) -> None:
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=timeout_ms)
    client.find_coordinator("payments", TRANSACTION)
    assert client.ask(request, 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert client.lives()


def test_a_repeated_sequence_is_answered_as_the_first_was(client: RawClient, created: str) -> None:
    producer_id = client.ask(InitProducerIdRequest(transactional_id=None), 5).producer_id
    batches = [
        batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence) for sequence in range(3)
    ]
    assert [client.produce(created, batch).base_offset for batch in batches] == [0, 1, 2]
    again = client.produce(created, batches[1])
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
    gap = batch_of(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=9)
    assert client.produce(created, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.fetch(created, 0).high_watermark == 3
