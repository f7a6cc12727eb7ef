"""What a source or a sink says of its values, or keys, when they are of a schema."""

from typing import TYPE_CHECKING

from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.work.connect.registry import Schemas

AVRO, PROTOBUF, JSON_SCHEMA = "avro", "protobuf", "json_schema"


class TypedValues(Value):
    """Values of a schema: `schema` is JSON, or Protobuf's set of descriptors; None is the latest of `subject`.

    `references` are other schemas that one of JSON Schema refers to, by their names in it. With a `registry` each value
    has the id of its own schema before it; `number` is that of what is written.
    """

    kind: str
    schema: bytes | None
    message: str = ""
    registry: "Schemas | None" = None
    subject: str = ""
    references: tuple[tuple[str, bytes], ...] = ()
    number: int | None = None
