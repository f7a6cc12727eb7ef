"""Metadata transactions: what lies between begin and end holds together or not at all."""

import pytest

from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    TopicRecord,
)
from penstock.metadata.transaction import MetadataTransaction
from penstock.protocol.errors import DecodeError

A, B, C, D = (TopicRecord(name=name) for name in "abcd")
BEGIN, END, ABORT = BeginTransactionRecord(name="t"), EndTransactionRecord(), AbortTransactionRecord()


def holding(*batches: list[MetadataRecord]) -> list[list[MetadataRecord]]:
    transaction = MetadataTransaction()
    return [transaction.take(batch) for batch in batches]


def test_records_hold_at_once_outside_a_transaction_and_at_its_end_within() -> None:
    assert holding([A], [B, BEGIN, C], [D], [END, A]) == [[A], [B], [], [C, D, A]]


def test_records_of_an_aborted_transaction_never_hold() -> None:
    assert holding([BEGIN, A], [B], [ABORT], [C]) == [[], [], [], [C]]
    assert holding([BEGIN, A, ABORT, BEGIN, B, END]) == [[B]]


@pytest.mark.parametrize("batch", [[END], [ABORT], [BEGIN, BEGIN], [BEGIN, END, END]])
def test_what_no_controller_writes_is_an_error(batch: list[MetadataRecord]) -> None:
    with pytest.raises(DecodeError, match="a metadata transaction"):
        holding(batch)


def test_a_transaction_is_open_until_it_ends() -> None:
    transaction = MetadataTransaction()
    seen = []
    for record in (A, BEGIN, B, END, BEGIN, ABORT):
        transaction.take([record])
        seen.append(transaction.is_open)
    assert seen == [False, True, True, False, True, False]
