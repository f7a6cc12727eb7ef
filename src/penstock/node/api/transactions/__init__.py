"""What transactional producers ask of brokers, coordinators of leaders, and who looks at transactions: a row and a file
for each API.

The files are loaded when the first request comes: many nodes have no transactions.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.node.serving.access import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTION,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
)
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.parts import Names
from penstock.node.serving.rules import Each, Rule, Told, Whole, Within, the_group, topic_of
from penstock.protocol.requests.api import ApiKey


def _the_transaction(request: Any) -> Iterable[str]:
    return (request.transactional_id,)


def _row(key: ApiKey, newest: int, *rule: Any, oldest: int = 0, parts: Names = (), pipelined: bool = False) -> Handler:
    function = later(f"{__name__}.{key.name.lower()}")
    return Handler(int(key), oldest, newest, function, Rule(rule), pipelined=pipelined, parts=parts)


HANDLERS: Final = {
    row.api_key: row
    for row in (
        _row(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            5,
            Within(WRITE_TRANSACTION, "up to version 3"),
            Within(WRITE_TOPIC, "for each topic up to version 3, or none is added"),
            Within(CLUSTER_ACTION, "from version 4 on, for brokers"),
            parts=(("transactions.", "results_by_transaction"),),
            pipelined=True,
        ),
        _row(
            ApiKey.ADD_OFFSETS_TO_TXN,
            4,
            Whole(WRITE_TRANSACTION, _the_transaction),
            Whole(READ_GROUP, the_group),
        ),
        _row(ApiKey.END_TXN, 5, Whole(WRITE_TRANSACTION, _the_transaction)),
        _row(ApiKey.WRITE_TXN_MARKERS, 2, Whole(ALTER_CLUSTER, or_else=CLUSTER_ACTION), oldest=1),
        _row(
            ApiKey.TXN_OFFSET_COMMIT,
            6,
            Whole(WRITE_TRANSACTION, _the_transaction),
            Whole(READ_GROUP, the_group),
            Each(READ_TOPIC, ("topics",), "topics", topic_of),
            parts=(("topics", "topics"),),
        ),
        _row(
            ApiKey.DESCRIBE_TRANSACTIONS,
            0,
            Each(DESCRIBE_TRANSACTION, ("transactional_ids",), "transaction_states"),
            Within(DESCRIBE_TOPIC, "to be told of a topic in it"),
        ),
        _row(
            ApiKey.LIST_TRANSACTIONS,
            2,
            Told(DESCRIBE_TRANSACTION, "transaction_states", lambda state: state.transactional_id),
        ),
    )
}
