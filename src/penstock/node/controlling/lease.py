"""Whether this broker may act as a leader: its lease from the controller.

A controller that hears nothing of a broker for `broker.session.timeout.ms` has others lead what it led. The broker
counts a little less, from when it sent the heartbeat that was answered (`penstock.leadership.lease`), and asks its
clock at each request: a process that hung, or that hears no controller any more, finds requests in its sockets before
any timer tells it that others lead now.

| the broker | with `leader.lease.on.quorum.loss=serve` | with `refuse` |
| --- | --- | --- |
| was answered | leads | leads |
| is not answered, and was awake all the time | leads, as in Kafka: perhaps no other can | leads no longer |
| hung for longer than its lease | leads no longer | leads no longer |
| is told that it is fenced, or not known | leads no longer | leads no longer |
| stops, and asks the controller to have others lead | leads until it hears that they do | leads no longer |

It leads again as soon as a heartbeat that it sent since is answered.
"""

import math
from collections.abc import Callable

from penstock.leadership.lease import HELD, Holder
from penstock.node.metrics.registry import Counter, Gauge, Group, Registry


class BrokerLease:
    """`clock_s` never goes back, and goes on while the machine sleeps. Before the first heartbeat it is not over."""

    __slots__ = (
        "_awake",
        "_clock_s",
        "_granted",
        "_is_laid_down",
        "_until_s",
        "broker_epoch",
        "length_s",
        "lost",
        "renewed",
    )

    def __init__(
        self, timeout_ms: int, clock_s: Callable[[], float], registry: Registry, *, while_awake: bool = True
    ) -> None:
        """`while_awake`: it lasts although no controller answers, while the process does not hang."""
        timeout_s = timeout_ms / 1000
        self._clock_s = clock_s
        self._granted = Holder(timeout_s)
        self._awake: Holder | None = Holder(timeout_s) if while_awake else None
        self._until_s = math.inf
        self._is_laid_down = False
        self.length_s = timeout_s * HELD
        self.broker_epoch = -1
        """Of the registration that the lease belongs to; -1 before the first."""
        self.renewed = 0
        self.lost = 0
        lease = Group.LEASE
        registry.add(
            Counter(lease, "LeaseRenewedCount", "How often a heartbeat has renewed the lease", lambda: self.renewed),
            Counter(lease, "LeaseLostCount", "How often it had ended before it was renewed", lambda: self.lost),
            Gauge(lease, "IsLeaseOver", "1 while others may lead what this broker led", lambda: int(self.is_over)),
        )

    @property
    def is_over(self) -> bool:
        return self._clock_s() > self._until_s

    @property
    def is_unheard(self) -> bool:
        """Whether the controller may have fenced this broker: none has answered for as long as a lease lasts."""
        return not self._granted.holds(self._clock_s())

    def beats(self) -> float:
        """The broker is awake, and sends a heartbeat or has given one up; returns the time."""
        now_s = self._clock_s()
        if self._awake is not None and now_s <= self._until_s:
            self._awake.renewed(now_s)
        self._count()
        return now_s

    def is_renewed(self, asked_s: float) -> None:
        """A heartbeat of that time was answered: the controller counts on this broker, which knows what it decided."""
        if self._is_laid_down:
            return
        self.lost += bool(self.renewed and self.is_over)
        self._granted.renewed(asked_s)
        self.renewed += 1
        self._count()

    def is_registered(self, broker_epoch: int) -> None:
        """The broker has begun another life in the cluster."""
        self.broker_epoch = broker_epoch

    def ends(self) -> None:
        self._granted.given_up()
        if self._awake is not None:
            self._awake.given_up()
        self._count()

    def is_laid_down(self) -> None:
        """This broker stops and the controller may have others lead at once, of which it may hear late: where it must
        not answer then, it is over for good.
        """
        if self._awake is None:
            self._is_laid_down = True
            self.ends()

    def _count(self) -> None:
        self._until_s = self._granted.until if self._awake is None else max(self._granted.until, self._awake.until)
