"""What a source's configuration asks of transactions is kept, or refused with the reason."""

import pytest

from penstock.work.connect.api import SourceConnector, SourceRecord, Support, TransactionContext
from penstock.work.connect.built_in.file_source import FileStreamSourceConnector
from penstock.work.connect.built_in.sql_source import SqlSourceConnector
from penstock.work.connect.config import ConfigError
from penstock.work.connect.runtime.kinds import checked
from penstock.work.connect.runtime.promises import broken

SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
REQUIRED = {"exactly.once.support": "required"}


class Silent(SourceConnector):
    """Has not thought of it."""


class Failing(Silent):
    def exactly_once_support(self, config: object) -> Support:
        raise OSError("no idea")


class Defining(Silent):
    def can_define_transaction_boundaries(self, config: object) -> Support:
        return Support.SUPPORTED


@pytest.mark.parametrize(
    ("kind", "config", "has", "reason"),
    [
        (FileStreamSourceConnector, REQUIRED, True, None),
        (FileStreamSourceConnector, REQUIRED, False, "exactly.once.source.support=enabled"),
        (SqlSourceConnector, REQUIRED | {"mode": "timestamp+incrementing"}, True, None),
        (SqlSourceConnector, REQUIRED | {"mode": "timestamp"}, True, "cannot, with this configuration"),
        (Silent, REQUIRED, True, "does not say whether it can"),
        (Failing, REQUIRED, True, "no idea"),
        (Silent, {"exactly.once.support": "requested"}, True, None),
        (Silent, {"transaction.boundary": "interval"}, True, None),
        (Silent, {"transaction.boundary": "interval"}, False, "writes no transactions"),
        (Silent, {"transaction.boundary": "connector"}, True, "does not say where they end"),
        (Defining, {"transaction.boundary": "connector"}, True, None),
        (Silent, {"transaction.boundary": "batch"}, True, None),
    ],
)
def test_what_is_refused(kind: type[SourceConnector], config: dict[str, str], has: bool, reason: str | None) -> None:
    reasons = [one for several in broken(kind, config, has_transactions=has).values() for one in several]
    assert len(reasons) == (reason is not None)
    assert reason is None or reason in reasons[0]


def test_a_connector_that_was_written_down_elsewhere_is_refused_as_it_starts() -> None:
    checked(SOURCE | REQUIRED, has_transactions=True)
    with pytest.raises(ConfigError, match="writes no transactions"):
        checked(SOURCE | REQUIRED)


def test_a_transaction_ends_behind_the_very_record_or_with_the_batch() -> None:
    transactions = TransactionContext()
    first, second = SourceRecord("t", value=1), SourceRecord("t", value=1)
    transactions.commit(second)
    assert (transactions.ends_at(first), transactions.ends_at(second)) == (None, True)
    transactions.abort(first)
    assert transactions.ends_at(first) is False
    transactions.abort()
    assert (transactions.take_batch(), transactions.take_batch(), transactions.ends_at(first)) == (False, None, None)
