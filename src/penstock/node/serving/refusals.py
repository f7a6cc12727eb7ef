"""Why connections are closed, in the log, and no more than a person can read however often it happens.

A cause is told when it comes up for the first time, and then at most once in `QUIET_S`, with how often it came in
between. Causes are forgotten, the oldest first, when there are `MAX_CAUSES`.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

CauseT = TypeVar("CauseT", bound=Hashable)

logger = logging.getLogger(__name__)

QUIET_S = 60.0
MAX_CAUSES = 1000
LONGEST_CLIENT_ID = 256
"""Characters of a client's id in a cause and its line; the client says it before anybody knows who that is."""

_TLS_HELLO = 0x160301
"""How it begins: the kind of record, and a version."""
_OF_HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN")


def no_length(size: int, most: int, key: str) -> str:
    """What was sent where a frame's length is due, and is none; `key` sets the most."""
    if size >> 8 == _TLS_HELLO:
        return (
            "the client speaks TLS, and the listener does not: security.protocol=PLAINTEXT, or another port, is needed"
        )
    if size.to_bytes(4, "big", signed=True) in _OF_HTTP:
        return "the client speaks HTTP, and the listener Kafka's protocol: another port is needed"
    return f"a frame of {size} bytes; {key} is {most}"


class Repeats(Generic[CauseT]):
    """How often each cause came since it was last told, in the order in which they were told.

    `forgotten` hears of one that makes room for another.
    """

    def __init__(self, forgotten: Callable[[CauseT, int], None] = lambda cause, untold: None) -> None:
        self._causes: OrderedDict[CauseT, tuple[float, int]] = OrderedDict()
        self._forgotten = forgotten

    def __len__(self) -> int:
        return len(self._causes)

    def take(self, cause: CauseT, now_s: float) -> int | None:
        """How often it came untold, if it is to be told now; None: it is counted."""
        told_s, untold = self._causes.get(cause, (now_s - QUIET_S, 0))
        if now_s - told_s < QUIET_S:
            self._causes[cause] = told_s, untold + 1
            return None
        self._causes[cause] = now_s, 0
        self._causes.move_to_end(cause)
        if len(self._causes) > MAX_CAUSES:
            oldest, (_, lost) = self._causes.popitem(last=False)
            self._forgotten(oldest, lost)
        return untold

    def forget_old(self, now_s: float) -> None:
        """Those whose next coming would be told anyhow."""
        while self._causes and now_s - next(iter(self._causes.values()))[0] >= QUIET_S:
            cause, (_, untold) = self._causes.popitem(last=False)
            self._forgotten(cause, untold)


class Refusals:
    """What the connections of one node were refused for; `clock_s` counts seconds."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._repeats = Repeats[Hashable]()

    def __len__(self) -> int:
        return len(self._repeats)

    def tell(self, cause: Hashable, who: object, reason: str) -> None:
        """Connections with the same `cause` are told of together."""
        now_s = self._clock_s()
        untold = self._repeats.take(cause, now_s)
        self._repeats.forget_old(now_s)
        if untold is not None:
            more = f" (and {untold} more for the same cause since it was last told)" if untold else ""
            logger.warning("%s: closed: %s%s", who, reason, more)
