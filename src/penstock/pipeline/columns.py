"""The columns of a read as Spark's DDL says them; light, unlike `arrow_columns.py`, which says them to Arrow."""

READ_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
)
READ_COLUMNS_WITH_HEADERS = READ_COLUMNS + ", headers array<struct<key: string, value: binary>>"
