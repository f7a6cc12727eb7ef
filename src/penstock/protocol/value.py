"""Values that are compared by what they hold and never change, whose classes are cheap to create.

A declaration reads

    class Endpoint(Value):
        name: str
        port: int = 9092

and means what a frozen dataclass with slots means. Creating such a dataclass takes 0.4 ms, most of it for source text
that it compiles; this one takes a twentieth, because `__init__` is compiled when the first value is made. That counts
where a package declares dozens of them and a node imports it at its start.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class ValueMeta(type):
    """Gathers the fields of a class of values and gives it slots."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "ValueMeta":
        """Creates a class whose fields are its annotations."""
        fields = tuple(namespace.get("__annotations__", ())) if bases else ()
        namespace["__defaults__"] = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace["__slots__"] = namespace["__match_args__"] = fields
        namespace["__compared__"] = attrgetter(*(fields or ("__class__",)))
        return super().__new__(mcs, name, bases, namespace)


class Value(metaclass=ValueMeta):
    """What all values have: construction by position or name, equality, a hash, a readable form."""

    __match_args__: ClassVar[tuple[str, ...]]
    __defaults__: ClassVar[dict[str, Any]]
    __compared__: ClassVar[Callable[[Any], Any]]

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        initialize = _compile_init(cls)
        cls.__init__ = initialize  # type: ignore[method-assign]
        initialize(self, *values, **named)

    def __eq__(self, other: object) -> bool:
        cls = type(self)
        if type(other) is not cls:
            return NotImplemented
        return bool(cls.__compared__(self) == cls.__compared__(other))

    def __hash__(self) -> int:
        return hash(type(self).__compared__(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({values})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def replace(self, **changes: object) -> Self:
        """The same with other values in the named fields."""
        return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)


def _compile_init(cls: type[Value]) -> Callable[..., None]:
    defaults, names = cls.__defaults__, cls.__match_args__
    scope: dict[str, Any] = {f"_d_{name}": default for name, default in defaults.items()}
    scope |= {f"_set_{name}": cls.__dict__[name].__set__ for name in names}
    parameters = ", ".join(f"{name}=_d_{name}" if name in defaults else name for name in names)
    body = "".join(f"    _set_{name}(self, {name})\n" for name in names)
    exec(f"def __init__(self, {parameters}):\n{body or '    pass'}", scope)
    initialize: Callable[..., None] = scope["__init__"]
    return initialize
