"""How fast connections may come: to the node by `max.connection.creation.rate`, to a listener by its own.

One that comes too fast is accepted, and heard when its turn comes; so those that wait are bounded by the limits of
connections. One that leaves before its turn gives that back: else who comes and goes would keep all others waiting.
Where brokers come by a listener of their own, that one waits for its own rate alone, but counts for all.

This module is loaded when such a rate is set.
"""

from collections.abc import Mapping

from penstock.metadata.quotas.bucket import Bucket
from penstock.protocol.value import Value


class Rates(Value):
    """Connections a second: of the node, and of listeners by name. `protected` is the listener between brokers."""

    of_node: int
    of_listeners: Mapping[str, int]
    protected: str | None
    window_s: float


class CreationRates:
    def __init__(self, rates: Rates, now_ms: int) -> None:
        self._protected = rates.protected
        self._of_node = Bucket(max(1, rates.of_node), rates.window_s, now_ms)
        self._of_listeners = {
            name: Bucket(max(1, rate), rates.window_s, now_ms) for name, rate in rates.of_listeners.items()
        }

    def delay_ms(self, listener: str, now_ms: int) -> int:
        """For how long a connection that has come waits until it is heard."""
        of_node = self._of_node.take(1, now_ms)
        of_listener = self._of_listeners.get(listener)
        return max(
            0 if listener == self._protected else of_node, 0 if of_listener is None else of_listener.take(1, now_ms)
        )

    def give_back(self, listener: str) -> None:
        """A connection has gone before its turn."""
        self._of_node.give_back(1)
        if listener in self._of_listeners:
            self._of_listeners[listener].give_back(1)
