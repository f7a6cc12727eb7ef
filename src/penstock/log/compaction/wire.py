"""How a node and the process in which it compacts talk: pickled values, each behind its length."""

import pickle

from penstock.log.compaction.rounds import Round
from penstock.protocol.value import Value

LENGTH_BYTES = 4


class Task(Value):
    """`bytes_per_s` limits reads and writes together."""

    work: Round
    bytes_per_s: float


def pack(value: object) -> bytes:
    content = pickle.dumps(value)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content
