"""Lets queries end between two batches. Spark itself only knows `stop`, which interrupts the batch under way.

A query looks before each batch whether it is still to run, at a state that `stop` sets first. Here that state is set
alone, and the rest of `stop` follows when the last batch is over. One that was planned at that moment and had not begun
does not begin: the next start does it.
"""

import time
from collections.abc import Collection
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipeline.jvm import execution_of, is_elsewhere

LOOK_EVERY_S: Final = 0.2


def drain(queries: Collection[StreamingQuery]) -> None:
    """They have stopped when this returns. Where Spark is elsewhere (Spark Connect), a query is stopped when its batch
    is seen to be over: the next one may have begun by then, and is interrupted.
    """
    if any(is_elsewhere(query) for query in queries):
        for query in queries:
            _until_batch_is_over(query)
            query.stop()
        return
    under_way = {query: execution for query in queries if (execution := execution_of(query)) is not None}
    for execution in under_way.values():
        kind = execution.getClass()
        over = kind.getClassLoader().loadClass(f"{kind.getPackageName()}.TERMINATED$")
        execution.state().set(over.getField("MODULE$").get(None))
    while under_way:
        time.sleep(LOOK_EVERY_S)  # what had seen the old state has begun its batch by then
        under_way = {query: one for query, one in under_way.items() if _is_in_a_batch(query, one)}
    for query in queries:
        query.stop()


def _until_batch_is_over(query: StreamingQuery) -> None:
    before = _last_batch(query)
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == before:
        time.sleep(LOOK_EVERY_S)


def _last_batch(query: StreamingQuery) -> Any:
    told = query.lastProgress
    return None if told is None else (told["batchId"], told["timestamp"])


def _is_in_a_batch(query: StreamingQuery, execution: Any) -> bool:
    return bool(execution.queryExecutionThread().isAlive() and query.status["isTriggerActive"])
