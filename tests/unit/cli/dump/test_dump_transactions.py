"""`penstock dump-log --transaction-log-decoder` says what the records of `__transaction_state` mean."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.coordinator.transaction.records import TransactionRecord
from penstock.coordinator.transaction.transaction import State, Transaction
from penstock.protocol.records import Record, encode_batch

ONGOING = Transaction(7, 3, 60_000, 1_000, State.ONGOING, {("t", 1): None}, 900, 6, 9, last_epoch=2, client_version=2)


def dumped(path: Path, *records: tuple[bytes | None, bytes | None]) -> list[dict[str, object]]:
    segment = path / "00000000000000000000.log"
    segment.write_bytes(encode_batch([Record(timestamp_ms=1, key=key, value=value) for key, value in records]))
    result = CliRunner().invoke(
        main, ["dump-log", "--files", str(segment), "--transaction-log-decoder", "--skip-record-metadata", "--json"]
    )
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [line for line in lines if line["kind"] == "record"]


@pytest.mark.parametrize("version", [0, 1])
def test_ids_and_tombstones_are_told(tmp_path: Path, version: int) -> None:
    shown, gone = dumped(
        tmp_path, TransactionRecord("pay", ONGOING, version).encode(), TransactionRecord("pay", None).encode()
    )
    assert shown["key"] == gone["key"] == {"type": "transaction", "transactionalId": "pay"}
    assert gone["payload"] is None
    assert shown["payload"] == {
        "producerId": 7,
        "previousProducerId": 6 if version else -1,
        "nextProducerId": 9 if version else -1,
        "producerEpoch": 3,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": "Ongoing",
        "transactionPartitions": ["t-1"],
        "transactionLastUpdateTimestampMs": 1_000,
        "transactionStartTimestampMs": 900,
        "clientTransactionVersion": 2 if version else 0,
    }


def test_what_is_something_else_is_shown_as_it_is(tmp_path: Path) -> None:
    other, bare = dumped(tmp_path, (b"\x00\x07x", b"value"), (None, b"value"))
    assert other["payload"] == bare["payload"] == "value"


def test_one_decoder_at_a_time() -> None:
    result = CliRunner().invoke(
        main, ["dump-log", "--files", "a.log", "--transaction-log-decoder", "--offsets-decoder"]
    )
    assert (result.exit_code, "give one decoder" in result.output) == (2, True)
