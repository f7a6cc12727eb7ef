"""The layouts of records that are parts of a group: the key has the group and perhaps a name, the value a version."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.coordinator.effects import KeyValue
from penstock.coordinator.group.parts import ONE
from penstock.coordinator.group.records import two_names
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.schema import Message, field
from penstock.protocol.value import Value

_VERSION: Final = struct.Struct(">h")
_VALUE_VERSION: Final = 0


class GroupKey(Message, versions="0"):
    group_id: str = field("string", "0+", default="")


class NamedKey(Message, versions="0"):
    """`name` is the id of a member, say."""

    group_id: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")


class PartLayout(Value):
    message: type[Message]
    write: Callable[[Any], Message]
    read: Callable[[Any], Any]
    is_named: bool = False
    """Whether a group may have many."""
    usual: Callable[[bytes], Any] | None = None
    """Of one with a name: what `read` makes of a whole value in the form that nearly all have, in less time; None for
    any other.
    """


class PartCodec:
    def __init__(self, layouts: Mapping[int, PartLayout]) -> None:
        """By the version of the key, which says what the record is about."""
        self._layouts = layouts

    def encoded(self, key: int, group_id: str, name: str, value: Any) -> KeyValue:
        layout = self._layouts[key]
        message = NamedKey(group_id=group_id, name=name) if layout.is_named else GroupKey(group_id=group_id)
        key_bytes = _VERSION.pack(key) + encode(message, 0)
        if value is None:
            return key_bytes, None
        return key_bytes, _VERSION.pack(_VALUE_VERSION) + encode(layout.write(value), _VALUE_VERSION)

    def decoded(self, key: int, key_data: bytes, value: bytes | None) -> tuple[str, str, Any]:
        """The group, the name, and what the value says: None for a tombstone. DecodeError if that cannot be read."""
        layout = self._layouts[key]
        if value is not None and layout.usual is not None:
            names = two_names(key_data[_VERSION.size :])
            found = None if names is None else layout.usual(value)
            if names is not None and found is not None:
                return *names, found
        group_id, name, message = self.decoded_message(key, key_data, value)
        return group_id, name, None if message is None else layout.read(message)

    def decoded_message(self, key: int, key_data: bytes, value: bytes | None) -> tuple[str, str, Message | None]:
        """As `decoded`, with the value in its layout."""
        layout = self._layouts[key]
        if layout.is_named:
            named = decode(NamedKey, 0, key_data, _VERSION.size)[0]
            group_id, name = named.group_id, named.name
        else:
            group_id, name = decode(GroupKey, 0, key_data, _VERSION.size)[0].group_id, ONE
        if value is None:
            return group_id, name, None
        if len(value) < _VERSION.size:
            raise DecodeError(f"a record of group {group_id} ends before its version")
        version = _VERSION.unpack_from(value)[0]
        if version != _VALUE_VERSION:
            raise DecodeError(f"a record of group {group_id} was written in version {version}, which we do not know")
        return group_id, name, decode(layout.message, version, value, _VERSION.size)[0]
