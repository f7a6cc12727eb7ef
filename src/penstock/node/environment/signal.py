"""What a part of a node tells whichever other parts want to know."""

from collections.abc import Callable
from typing import Generic, TypeVarTuple

Ts = TypeVarTuple("Ts")


class Signal(Generic[*Ts]):
    """Calls its listeners, in the order in which they were added, within the call that tells something."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Ts], None]] = []

    def listen(self, listener: Callable[[*Ts], None]) -> None:
        self._listeners.append(listener)

    def __call__(self, *told: *Ts) -> None:
        for listener in self._listeners:
            listener(*told)
