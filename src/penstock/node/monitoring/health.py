"""Whether a node lives, and whether it is ready: what it needs to serve, each with a word on how it is.

| it is ready when       | because                                                                          |
| ---------------------- | -------------------------------------------------------------------------------- |
| it takes part          | its part in the quorum works: its disk took what it wrote                        |
| it is registered       | as a broker, the cluster knows this run of it                                    |
| it is unfenced         | the controller lets it lead                                                      |
| it holds its lease     | no other broker may lead what it leads                                           |
| directories are online | each log directory that it has takes records                                     |
| it has caught up       | it hears the active controller, and has applied what that said was committed     |

A controller that is no broker is ready without the second to the fourth.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final

from penstock.node.monitoring.http import Asked, Told
from penstock.protocol.value import Value

JSON: Final = "application/json"


class Check(Value):
    name: str
    holds: Callable[[], bool]


def checked(checks: Iterable[Check]) -> Mapping[str, bool]:
    return {check.name: check.holds() for check in checks}


class Health:
    """Pages on the checks of a node; those of its broker are added when it has one."""

    def __init__(self, live: Check) -> None:
        self._live = live
        self._ready = [live]

    def add(self, *checks: Check) -> None:
        self._ready += checks

    async def live(self, asked: Asked) -> Told:
        return _told(checked([self._live]))

    async def ready(self, asked: Asked) -> Told:
        return _told(checked(self._ready))


def _told(found: Mapping[str, bool]) -> Told:
    status = HTTPStatus.OK if all(found.values()) else HTTPStatus.SERVICE_UNAVAILABLE
    return Told(json.dumps(found, indent=2).encode() + b"\n", JSON, status)
