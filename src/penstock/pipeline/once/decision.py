"""What is decided about a batch: the transactions that make it up. As it is written down, too."""

import json
from typing import Any, Final

from penstock.client.values import TransactionName
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value

LAYOUT: Final = 1


class Decision(Value):
    """Of a batch these transactions are committed, and no others."""

    batch: int
    transactions: tuple[TransactionName, ...]

    def encode(self) -> bytes:
        rows = [[one.transactional_id, one.producer_id, one.epoch, one.is_kept] for one in self.transactions]
        return json.dumps({"layout": LAYOUT, "batch": self.batch, "transactions": rows}).encode()


def decode_decision(text: bytes) -> Decision:
    """DecodeError for what is none, or has a layout from later versions."""
    try:
        read: Any = json.loads(text)
        if read["layout"] != LAYOUT:
            raise DecodeError(f"a decision about a batch has layout {read['layout']}, and only {LAYOUT} is known")
        return Decision(int(read["batch"]), tuple(TransactionName(*row) for row in read["transactions"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"a decision about a batch cannot be read: {error}") from error
