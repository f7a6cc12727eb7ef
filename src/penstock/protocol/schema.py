"""How messages are declared: one class for all versions of a message, each field with the versions that have it.

A declaration reads

    class HeartbeatRequest(Message, versions="0-4", flexible="4+"):
        group_id: str = field("string", "0+", default="")
        group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
        topics: list[Topic] = array(Topic, "0+", default_factory=list)

Versions are written as Kafka writes them: "2+", "1-4", "3". Structures inside a message are messages too; they leave
out `versions` and take those of the message that they stand in. Classes are cheap to create, because a broker imports
hundreds at its start: what costs time (`__init__`, readers, writers) is compiled when it is first used.

The text of a message tells no secrets: bytes are counted, and values of configs are hidden.

Kinds: bool, int8, int16, uint16, int32, uint32, int64, float64, string, bytes, records, uuid, or a message class; and
`slice`: bytes that are not copied but stay in the buffer that was read, as a memoryview of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from penstock.protocol.value import HIDDEN

T = TypeVar("T")

BYTES: Final = ("bytes", "records", "slice")
"""Kinds that may hold a password, what proves one, a whole request, or what users have written."""
ALL_VERSIONS: Final = range(1 << 15)
NO_VERSIONS: Final = range(0)


@cache
def parse_versions(text: str) -> range:
    """`text` is "2+", "1-4", "3" or "" (none)."""
    if not text:
        return NO_VERSIONS
    first, dash, last = text.rstrip("+").partition("-")
    if text.endswith("+"):
        return range(int(first), ALL_VERSIONS.stop)
    return range(int(first), int(last if dash else first) + 1)


@dataclass(slots=True, eq=False)
class Field:
    """`kind` is a name or a message class; `default_factory` is set where the default must not be shared; a field with
    a `tag` is tagged in the versions `tagged`; `flexible=False` keeps the old form in flexible versions.
    """

    kind: "str | type[Message]"
    versions: str
    nullable: str
    tag: int | None
    tagged: str
    default: object
    default_factory: Callable[[], object] | None
    is_array: bool
    flexible: bool

    def new_default(self) -> object:
        return self.default if self.default_factory is None else self.default_factory()

    def is_in(self, version: int) -> bool:
        return version in parse_versions(self.versions)

    def is_nullable_in(self, version: int) -> bool:
        return version in parse_versions(self.nullable)

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version in parse_versions(self.tagged or self.versions)

    def shown(self, value: Any) -> str:
        """In the text of a message, which may get into a log: bytes are counted."""
        if self.kind not in BYTES or value is None:
            return repr(value)
        return f"<{len(value)} {'items' if self.is_array else 'bytes'}>"

    def holds(self, value: Any, version: int) -> bool:
        """Whether a value survives being written and read in this version."""
        if not self.is_in(version):
            return bool(value == self.new_default())
        if value is None:
            return self.is_nullable_in(version)
        if isinstance(self.kind, str):
            return True
        return all(part.is_whole_in(version) for part in (value if self.is_array else (value,)))


def field(
    kind: "str | type[Message]",
    versions: str,
    *,
    default: T,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    flexible: bool = True,
) -> T:
    """A field with one value, or with a structure that may be None."""
    return Field(kind, versions, nullable, tag, tagged, default, None, False, flexible)  # type: ignore[return-value]


def struct(
    kind: "type[Message]",
    versions: str,
    *,
    default_factory: Callable[[], T],
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
) -> T:
    return Field(kind, versions, nullable, tag, tagged, None, default_factory, False, True)  # type: ignore[return-value]


def array(
    kind: "str | type[Message]",
    versions: str,
    *,
    default_factory: Callable[[], T],
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
) -> T:
    return Field(kind, versions, nullable, tag, tagged, None, default_factory, True, True)  # type: ignore[return-value]


def none() -> None:
    """The default factory of an array that is null unless it is set."""


@dataclass_transform(kw_only_default=True, field_specifiers=(field, struct, array))
class MessageMeta(type):
    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, versions: str = "", flexible: str = ""
    ) -> "MessageMeta":
        """`versions` and `flexible` belong to whole messages only."""
        fields = {key: value for key, value in namespace.items() if type(value) is Field}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["__fields__"] = fields
        namespace["__versions__"] = versions
        namespace["__flexible__"] = flexible
        namespace["__readers__"] = {}
        namespace["__writers__"] = {}
        return super().__new__(mcs, name, bases, namespace)


class Message(metaclass=MessageMeta):
    """Messages have keyword-only construction, equality, a readable form."""

    __fields__: ClassVar[dict[str, Field]]
    __versions__: ClassVar[str]
    __flexible__: ClassVar[str]
    __readers__: ClassVar[dict[int | tuple[int, int], Any]]
    __writers__: ClassVar[dict[int, Any]]

    def __init__(self, **values: object) -> None:
        cls = type(self)
        initialize = _compile_init(cls)
        cls.__init__ = initialize  # type: ignore[method-assign]
        initialize(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = type(self).__name__
        hidden = "value" if "Config" in kind else ""
        values = (
            f"{name}={HIDDEN if value and name == hidden else item.shown(value)}"
            for name, item in self.__fields__.items()
            for value in (getattr(self, name),)
        )
        return f"{kind}({', '.join(values)})"

    def replace(self, **changes: object) -> Self:
        return type(self)(**{name: getattr(self, name) for name in self.__fields__} | changes)

    def is_whole_in(self, version: int) -> bool:
        """That version has room for all values of this message."""
        return all(item.holds(getattr(self, name), version) for name, item in self.__fields__.items())

    @classmethod
    def version_range(cls) -> range:
        return parse_versions(cls.__versions__)


def is_request(message: type[Message]) -> bool:
    """Or one as a node reads it, a frame."""
    return message.__name__.endswith(("Request", "Frame"))


@cache
def has_slices(message: type[Message]) -> bool:
    """Whether it, or a structure in it, has bytes that stay in the buffer that was read."""
    kinds = [item.kind for item in message.__fields__.values()]
    return any(kind == "slice" if isinstance(kind, str) else has_slices(kind) for kind in kinds)


_UNSET: Final = object()


def _compile_init(cls: type[Message]) -> Callable[..., None]:
    if not cls.__fields__:
        return lambda self: None
    parameters: list[str] = []
    body: list[str] = []
    scope: dict[str, object] = {"_UNSET": _UNSET}
    for name, item in cls.__fields__.items():
        if item.default_factory is None:
            scope[f"_d_{name}"] = item.default
            parameters.append(f"{name}=_d_{name}")
            body.append(f"    self.{name} = {name}")
        else:
            scope[f"_f_{name}"] = item.default_factory
            parameters.append(f"{name}=_UNSET")
            body.append(f"    self.{name} = _f_{name}() if {name} is _UNSET else {name}")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(body)
    exec(source, scope)
    initialize: Callable[..., None] = scope["__init__"]  # type: ignore[assignment]
    return initialize
