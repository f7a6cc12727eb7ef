"""A schema as the process apart gets it, and what is wrong with values of it."""

from typing import Final

from penstock.protocol.value import Value

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
HEAD_BYTES: Final = 5
"""A zero byte and the number of the schema."""


class UnreadableError(Exception):
    """Why a value is not what its schema says, or cannot be made one."""


class KnownSchema(Value):
    """With all that it refers to. `text` is Avro's or JSON Schema's own, of Protobuf a descriptor in base64."""

    number: int
    kind: str
    text: bytes
    references: tuple[tuple[str, bytes], ...] = ()

    @property
    def head(self) -> bytes:
        """What stands before each value."""
        return b"\0" + self.number.to_bytes(HEAD_BYTES - 1)
