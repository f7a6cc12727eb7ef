"""Which brokers live: what the active controller remembers of their heartbeats, and nobody else.

This is soft state (KIP-631): it is in no record, so a new active controller begins without it and gives each broker
that is not fenced a whole session to report itself. A broker that has been silent for `broker.session.timeout.ms` is
fenced, and at once when its process is known to have ended (`probe`).

A session is the granter's side of a lease (`penstock.leadership.lease`): within it the broker may act as a leader. So a
broker that was fenced comes back only when it has heard of what it has lost (`knows`); otherwise it would be told
that it may lead, and lead what another one leads by now.

A session belongs to one registration, that is to one epoch of a broker: a broker that registers anew has a new one.

Beside the sessions stands what is left to do. A broker may be in so many partitions that its going takes several
decisions; the first of them fences it, and the brokers in `unfinished` have partitions that do not follow yet. Those
that are known to be left are noted, so that no decision looks at what an earlier one has seen to.

A decision whose records could not be appended has not been made, so what it noted here does not count. But a broker
that was heard was heard.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from penstock.metadata.image import BrokerImage, ClusterImage
from penstock.metadata.partition_index import Partitions
from penstock.protocol.value import Value

NOT_STOPPING = -1
UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class Session:
    epoch: int
    last_contact_ms: int
    metadata_offset: int = UNKNOWN_OFFSET
    """Told by the broker last."""
    was_heard: bool = False
    """False while the session is only what a new controller grants."""
    shutdown_offset: int = NOT_STOPPING
    """The offset of the last record that took leadership from a broker on its way out."""


class Going(Enum):
    FENCED = auto()
    WITHOUT_DATA = auto()
    STOPPING = auto()
    BACK = auto()
    BACK_AFTER_CRASH = auto()

    @property
    def loses(self) -> bool:
        return self in (Going.WITHOUT_DATA, Going.BACK_AFTER_CRASH)

    @property
    def leads_on(self) -> bool:
        """Whether the broker keeps what no other one can lead."""
        return self not in (Going.FENCED, Going.WITHOUT_DATA)

    @property
    def losing(self) -> "Going":
        """What it becomes where the broker may lack records because of what was before."""
        return {Going.FENCED: Going.WITHOUT_DATA, Going.BACK: Going.BACK_AFTER_CRASH}.get(self, self)


class Left(Value):
    """Partitions whose changes are not decided yet, and the cause."""

    going: Going
    partitions: Partitions
    lost: Partitions
    """In these the broker may lack records that it had, however it goes."""


@dataclass(slots=True)
class _Notes:
    sessions: dict[int, Session] = field(default_factory=dict)
    unfinished: dict[int, bool | Left] = field(default_factory=dict)
    untold: set[int] = field(default_factory=set)
    lost_until: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "_Notes":
        return _Notes(dict(self.sessions), dict(self.unfinished), set(self.untold), dict(self.lost_until))


class Heartbeats:
    """`now_ms` comes from a clock that never goes back."""

    def __init__(self, session_timeout_ms: int, local_broker_id: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._local_broker_id = local_broker_id
        self._kept = _Notes()
        self._draft = _Notes()

    def begin(self, image: ClusterImage, now_ms: int) -> None:
        """Sessions begin anew, and unfinished changes are looked for at every broker."""
        for broker in image.brokers.values():
            if not broker.fenced:
                self._kept.sessions[broker.node_id] = Session(broker.epoch, now_ms)
            else:
                self._kept.lost_until[broker.node_id] = image.offset
        self._kept.unfinished = dict.fromkeys([*image.brokers, *image.index.brokers_in_sync()], False)
        self._kept.untold = set(image.brokers)

    def open_decision(self) -> None:
        """What a decision notes counts from `close_decision` on, and not at all if that does not come."""
        self._draft = self._kept.copy()

    def close_decision(self) -> None:
        """The records of the decision were appended, or it had none."""
        self._kept = self._draft

    @property
    def unfinished(self) -> dict[int, bool | Left]:
        """Brokers whose partitions do not follow yet from what they are, with these partitions if they are known.

        Else True where an active broker may have lost directories; for another active one only partitions without a
        leader are to be looked at.
        """
        return self._draft.unfinished

    @property
    def is_finished(self) -> bool:
        """Whether all partitions follow from what their brokers are."""
        return not self._kept.unfinished

    def registered(self, broker_id: int, epoch: int, now_ms: int) -> None:
        self._draft.sessions[broker_id] = Session(epoch, now_ms, was_heard=True)

    def heard(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int) -> Session:
        """The session begins anew, whatever becomes of the decision."""
        session = self._draft.sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = Session(epoch, now_ms)
            self._draft.sessions[broker_id] = self._kept.sessions[broker_id] = session
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset
        session.was_heard = True
        return session

    def end(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """The session is over, as its holder is gone. Returns whether there was one of that registration."""
        session = self._kept.sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            return False
        session.last_contact_ms = min(session.last_contact_ms, now_ms - self.session_timeout_ms)
        return True

    def lacks_directories(self, broker_id: int) -> None:
        """The first time, an earlier controller may not have seen to all of what lies there."""
        if broker_id in self._draft.untold:
            self._draft.untold.discard(broker_id)
            self._draft.unfinished[broker_id] = True

    def loses(self, broker_id: int, offset: int) -> None:
        """A fenced broker loses what it led, or rights of its clients, by records up to this offset."""
        self._draft.lost_until[broker_id] = offset

    def knows(self, session: Session, broker: BrokerImage) -> bool:
        """Whether a fenced broker knows that it is registered, and what it has lost."""
        return session.metadata_offset >= max(broker.epoch, self._draft.lost_until.get(broker.node_id, UNKNOWN_OFFSET))

    def hands_over(self, broker_id: int, offset: int) -> None:
        """A broker on its way out has handed over what it led, by a record at this offset."""
        session = self._draft.sessions.get(broker_id)
        if session is not None:
            session.shutdown_offset = offset

    def comes(self, broker_id: int) -> None:
        self._draft.lost_until.pop(broker_id, None)

    def forget(self, broker_id: int) -> None:
        self._draft.sessions.pop(broker_id, None)

    def unregistered(self, broker_id: int) -> None:
        """One of that id that comes later has a newer epoch than all that this one has lost."""
        self.forget(broker_id)
        self._draft.lost_until.pop(broker_id, None)
        self._draft.untold.discard(broker_id)

    def is_alive(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether that registration of a broker is held by a living process, as far as one can know.

        The broker in the controller's own process is told by its own heartbeats alone: an earlier process on this
        node's directories is gone.
        """
        session = self._draft.sessions.get(broker_id)
        if session is None or session.epoch != epoch or not self._holds(session, now_ms):
            return False
        return session.was_heard or broker_id != self._local_broker_id

    def seen_by(self, image: ClusterImage, offset: int, broker_ids: Iterable[int]) -> bool:
        """Whether these brokers, where active, have applied the metadata log up to `offset`."""
        return offset <= self.seen_until(image, broker_ids)

    def seen_until(self, image: ClusterImage, broker_ids: Iterable[int]) -> float:
        """The offset up to which all of these brokers that are active have applied the metadata log."""
        sessions = self._draft.sessions
        seen = [
            sessions[broker_id].metadata_offset if broker_id in sessions else -math.inf
            for broker_id in broker_ids
            if (broker := image.brokers.get(broker_id)) is not None and broker.active
        ]
        return min(seen, default=math.inf)

    def silent_broker(self, image: ClusterImage, now_ms: int) -> int | None:
        """The broker to fence now. A controller that asks much too late stood still: it renews all sessions."""
        deadline_ms = self.deadline_ms
        if deadline_ms is not None and now_ms - deadline_ms > self.session_timeout_ms // 2:
            self._renew(now_ms)
        for broker_id, session in list(self._draft.sessions.items()):
            if self._holds(session, now_ms):
                continue
            del self._draft.sessions[broker_id]
            broker = image.brokers.get(broker_id)
            if broker is not None and broker.epoch == session.epoch and not broker.fenced:
                return broker_id
        return None

    @property
    def deadline_ms(self) -> int | None:
        contacts_ms = [session.last_contact_ms for session in self._kept.sessions.values()]
        return min(contacts_ms) + self.session_timeout_ms if contacts_ms else None

    def _holds(self, session: Session, now_ms: int) -> bool:
        return now_ms < session.last_contact_ms + self.session_timeout_ms

    def _renew(self, now_ms: int) -> None:
        for session in self._draft.sessions.values():
            if not self._holds(session, now_ms):
                session.last_contact_ms = now_ms
