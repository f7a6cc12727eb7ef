"""Orders into a table of Delta Lake, each exactly once: with its rows the table keeps the number of the batch.

It is written by `deltalake`, which needs no jar. A batch goes through the driver, so `maxOffsetsPerTrigger` limits it.
A query that was killed does its last batch again, under the same number: then it is in the table already.
"""

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame

SOURCE = {
    "kafka.bootstrap.servers": "127.0.0.1:9092",
    "subscribe": "orders",
    "startingOffsets": "earliest",
    "maxOffsetsPerTrigger": "100000",
    "json": "order BIGINT, customer BIGINT, amount DOUBLE",
}
SINK = {"format": "foreachBatch", "function": "orders_to_delta:write", "path": "orders_with_tax"}
TRIGGER = "5 seconds"
TABLE = SINK["path"]
WRITER = "orders_to_delta"
"""Who writes: the numbers of its batches begin anew only with a new checkpoint, which needs another name."""


def pipeline(source: DataFrame) -> DataFrame:
    """What is written."""
    return source.selectExpr("order", "customer", "amount", "round(amount * 0.19, 2) AS tax")


def write(batch: DataFrame, number: int) -> None:
    """A batch and its number, both or none."""
    if DeltaTable.is_deltatable(TABLE):
        last = DeltaTable(TABLE).transaction_version(WRITER)
        if last is not None and last >= number:
            return
    done = CommitProperties(app_transactions=[Transaction(WRITER, number)])
    write_deltalake(TABLE, batch.toArrow(), mode="append", commit_properties=done)
