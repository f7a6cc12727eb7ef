"""The columns of a frame that can be written to topics."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.pipeline.errors import PipelineError

TEXT_OR_BYTES = (StringType, BinaryType, NullType)


def check_written_columns(schema: StructType, topic: str | None) -> None:
    """PipelineError for a column that is missing or of another type; `topic` is the option."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise PipelineError(
            f"A frame that is written needs a column value; it has {', '.join(types) or 'no columns'}. "
            "Make one, for example with to_json(struct(*)) AS value."
        )
    if topic is None and "topic" not in types:
        raise PipelineError("Say where to write: set the option topic, or add a column topic.")
    expected: dict[str, tuple[type[DataType], ...]] = {
        "key": TEXT_OR_BYTES,
        "value": TEXT_OR_BYTES,
        "topic": (StringType,),
        "partition": (IntegerType, LongType, ShortType, NullType),
        "timestamp": (TimestampType, NullType),
    }
    for name, allowed in expected.items():
        if name in types and not isinstance(types[name], allowed):
            words = " or ".join(kind.typeName() for kind in allowed if kind is not NullType)
            raise PipelineError(f"Column {name} is {types[name].simpleString()}; to be written it must be {words}.")
    if "headers" in types and not _is_headers(types["headers"]):
        raise PipelineError(
            f"Column headers is {types['headers'].simpleString()}; it must be array<struct<key:string,value:binary>>."
        )


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return len(fields) == 2 and all(isinstance(field.dataType, TEXT_OR_BYTES) for field in fields)
