"""Values that are compared by what they hold and never change, whose classes are cheap to create.

A declaration reads

    class Endpoint(Value):
        name: str
        port: int = 9092

and means what a frozen dataclass with slots means; with `class Endpoint(Value, kw_only=True)` its fields are only given
by name. A subclass adds fields behind those of its base. A default that is not to be shared is `fresh(dict)`.

Creating such a dataclass takes 0.4 ms, most of it for source text that it compiles; this one takes a twentieth, because
`__init__` is compiled when the first value is made. That counts where a package declares dozens of them and a node
imports it at its start.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar, cast, dataclass_transform

T = TypeVar("T")
HIDDEN: Final = "[hidden]"
"""Stands in the place of what no text of a value or message tells."""


class _Fresh:
    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def fresh(make: Callable[[], T]) -> T:
    """Each value gets a default from a call of its own."""
    return cast("T", _Fresh(make))


@dataclass_transform(frozen_default=True)
class ValueMeta(type):
    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, kw_only: bool = False
    ) -> "ValueMeta":
        own = tuple(namespace.get("__annotations__", ())) if bases else ()
        base = bases[0] if bases else None
        fields = (*getattr(base, "__fields__", ()), *own)
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__defaults__"] = getattr(base, "__defaults__", {}) | defaults
        namespace["__slots__"] = own
        namespace["__fields__"] = namespace["__match_args__"] = fields
        namespace["__compared__"] = attrgetter(*(fields or ("__class__",)))
        namespace["__kw_only__"] = kw_only
        namespace["__init__"] = _compile_and_initialize
        return super().__new__(mcs, name, bases, namespace)


def _compile_and_initialize(self: "Value", *values: Any, **named: Any) -> None:
    cls = type(self)
    cls.__init__ = initialize = _compile_init(cls)  # type: ignore[method-assign]
    initialize(self, *values, **named)


class Value(metaclass=ValueMeta):
    """Values have construction by position or name, equality, a hash, a readable form."""

    __fields__: ClassVar[tuple[str, ...]]
    __kw_only__: ClassVar[bool]
    __defaults__: ClassVar[dict[str, Any]]
    __compared__: ClassVar[Callable[[Any], Any]]

    def __eq__(self, other: object) -> bool:
        cls = type(self)
        if type(other) is not cls:
            return NotImplemented
        return bool(cls.__compared__(self) == cls.__compared__(other))

    def __hash__(self) -> int:
        return hash(type(self).__compared__(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__fields__)
        return f"{type(self).__name__}({values})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        return _restore, (type(self), {name: getattr(self, name) for name in self.__fields__})

    def replace(self, **changes: object) -> Self:
        return type(self)(**{name: getattr(self, name) for name in self.__fields__} | changes)


def _restore(cls: type[Value], fields: dict[str, Any]) -> Value:
    return cls(**fields)


def _compile_init(cls: type[Value]) -> Callable[..., None]:
    defaults, names = cls.__defaults__, cls.__fields__
    scope: dict[str, Any] = {f"_d_{name}": default for name, default in defaults.items()}
    scope |= {f"_set_{name}": getattr(cls, name).__set__ for name in names}
    parameters = ["*"] if cls.__kw_only__ and names else []
    parameters += [f"{name}=_d_{name}" if name in defaults else name for name in names]
    values = {
        name: f"{name} if {name} is not _d_{name} else _d_{name}.make()"
        for name, default in defaults.items()
        if isinstance(default, _Fresh)
    }
    body = "".join(f"    _set_{name}(self, {values.get(name, name)})\n" for name in names)
    exec(f"def __init__(self, {', '.join(parameters)}):\n{body or '    pass'}", scope)
    initialize: Callable[..., None] = scope["__init__"]
    return initialize
