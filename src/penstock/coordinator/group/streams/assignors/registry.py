"""Assignors by their names: those that come with Penstock, and those that installed packages offer (KIP-1357).

Such a package names a function in its entry points of `penstock.streams_assignors`; it takes a `Spec` and returns the
tasks of each member.
"""

from functools import cache, partial
from importlib.metadata import entry_points
from typing import Final

from penstock.coordinator.group.streams.assignors import sticky
from penstock.coordinator.group.streams.assignors.checked import checked
from penstock.coordinator.group.streams.assignors.spec import Assignor, Spec, Targets
from penstock.protocol.errors import ErrorCode, KafkaError

ENTRY_POINTS: Final = "penstock.streams_assignors"

_BUILT_IN: Final[dict[str, Assignor]] = {"sticky": sticky.assign}


def name_of(name: str | None, offered: tuple[str, ...]) -> str:
    """The one that is wanted, or the first that is offered if that one is not."""
    return name if name in offered and name is not None else offered[0]


def assignor(name: str | None, offered: tuple[str, ...]) -> Assignor:
    """What others wrote raises KafkaError(UNKNOWN_SERVER_ERROR) where it fails, or does what no assignor may. It may
    take any time: see `is_built_in`. KafkaError(INVALID_CONFIG) if no installed package has it.
    """
    return _found(name_of(name, offered))


def is_built_in(name: str) -> bool:
    """All others are to work elsewhere than on the event loop."""
    return name in _BUILT_IN


@cache
def _found(name: str) -> Assignor:
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        return built_in
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        offered = ", ".join(sorted({*_BUILT_IN, *points}))
        raise _unusable(name, f"no installed package offers it ({ENTRY_POINTS}); there is {offered}")
    try:
        loaded = points[name].load()
    except Exception as error:
        raise _unusable(name, f"it cannot be loaded: {error!r}") from error
    if not callable(loaded):
        raise _unusable(name, "it is not a function that takes a Spec")
    return partial(_guarded, name, loaded)


def _guarded(name: str, assign: Assignor, spec: Spec) -> Targets:
    try:
        return checked(spec, assign(spec))
    except Exception as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the streams assignor {name} failed: {error}") from error


def _unusable(name: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"group.streams.assignors={name}: {why}")
