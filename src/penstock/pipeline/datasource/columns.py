"""The columns of a read as Spark's DDL says them; light, unlike `arrow/read_columns.py`, which says them to Arrow."""

READ_COLUMN_TYPES = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("headers", "array<struct<key:string,value:binary>>"),
)
READ_COLUMNS_WITH_HEADERS = ", ".join(f"{name} {kind}" for name, kind in READ_COLUMN_TYPES)
READ_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in READ_COLUMN_TYPES[:-1])
