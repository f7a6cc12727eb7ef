"""Those of `make kafka` that are programs in Java beside kills, by their names there."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.java.flink import copy_with_flink
from tests.java.streams import count_words
from tests.java.tellers import kill_tellers_and_nodes

PROGRAMS: Final[dict[str, Callable[..., None]]] = {
    "tellers": kill_tellers_and_nodes,
    "flink-incrementing": partial(copy_with_flink, naming="INCREMENTING"),
    "flink-pooling": partial(copy_with_flink, naming="POOLING"),
    "streams-brokers": partial(count_words, protocol="streams"),
    "streams-brokers-classic": partial(count_words, protocol="classic"),
}
