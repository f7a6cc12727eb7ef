"""What is decided about a batch: the transactions that make it up. As it is written down, too."""

import json
from typing import Any, Final

from penstock.client.values import TransactionName
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value

LAYOUT: Final = 1


class Decision(Value):
    """Of a batch these transactions are committed, and no others.

    `aborted` are of no batch: they were open when a run of the query ended, and no later one may be decided with them.
    """

    batch: int
    transactions: tuple[TransactionName, ...]
    aborted: tuple[TransactionName, ...] = ()

    def encode(self) -> bytes:
        said = {"layout": LAYOUT, "batch": self.batch, "transactions": _rows(self.transactions)}
        return json.dumps(said | ({"aborted": _rows(self.aborted)} if self.aborted else {})).encode()


def decode_decision(text: bytes) -> Decision:
    """DecodeError for what is none, or has a layout from later versions."""
    try:
        read: Any = json.loads(text)
        if read["layout"] != LAYOUT:
            raise DecodeError(f"a decision about a batch has layout {read['layout']}, and only {LAYOUT} is known")
        committed, aborted = (
            tuple(TransactionName(*row) for row in rows) for rows in (read["transactions"], read.get("aborted", ()))
        )
        return Decision(int(read["batch"]), committed, aborted)
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"a decision about a batch cannot be read: {error}") from error


def _rows(names: tuple[TransactionName, ...]) -> list[list[Any]]:
    return [[one.transactional_id, one.producer_id, one.epoch, one.is_kept] for one in names]
