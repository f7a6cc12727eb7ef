"""What each customer has ordered so far: state of one's own by keys, with Spark's transformWithState.

With a node on 127.0.0.1:9092 and a topic `orders`: penstock pipeline run examples/pipelines/totals_of_customers.py
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

SOURCE = {
    "kafka.bootstrap.servers": "127.0.0.1:9092",
    "subscribe": "orders",
    "startingOffsets": "earliest",
    "json": "customer STRING, amount DOUBLE",
}
SINK = {"topic": "totals_of_customers", "key": "customer"}


class Totals(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "orders BIGINT, amount DOUBLE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        orders, amount = self._total.get() or (0, 0.0)
        for row in rows:
            orders, amount = orders + 1, amount + row.amount
        self._total.update((orders, amount))
        yield Row(customer=key[0], orders=orders, amount=amount)

    def close(self) -> None: ...


def pipeline(source: DataFrame) -> DataFrame:
    columns = "customer STRING, orders BIGINT, amount DOUBLE"
    return source.groupBy("customer").transformWithState(Totals(), columns, "Append", "None")
