"""What the active controller decides: a command in, metadata records and a reply out.

Commands are the request messages of Kafka's own protocol. `decide` changes nothing that is in a record; the caller
appends the records as one and applies them here, so that the next decision sees them, and sends the reply once they are
committed. The records are such as the cluster's level of metadata.version has. A command that cannot be carried out
yields no records and a reply with Kafka's error code.

So this image runs ahead of what is committed. A controller that is no longer active forgets it, and the next one starts
from what was committed.

What no client asks for, `tick` decides: brokers that fall silent are fenced, moves that were too many for one decision
go on, leadership returns to preferred replicas. The caller needs one timer, for `next_deadline_ms`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.controller.decision import Chance, ControllerSettings, ControllerState, Decision, ReplyT
from penstock.controller.decisions import decision_on
from penstock.controller.upkeep import Upkeep
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import as_at
from penstock.metadata.records import MetadataRecord
from penstock.protocol.schema import Message

if TYPE_CHECKING:
    from penstock.controller.policies import Verdicts


class Controller:
    def __init__(
        self, image: ClusterImage, settings: ControllerSettings, chance: Chance, *, next_offset: int = 0
    ) -> None:
        """Starts from `image`, which becomes the controller's own; its next record will have `next_offset`."""
        self.state = ControllerState(image, settings, chance, next_offset)
        self._upkeep = Upkeep(self.state)

    @property
    def image(self) -> ClusterImage:
        """The state after all records decided so far, committed or not."""
        return self.state.image

    def decide(
        self, command: Message, now_ms: int, verdicts: "Verdicts | None" = None, asker: str = ""
    ) -> Decision[Any]:
        """The reply is the response of the command's API. `now_ms` never goes back, here and in `tick`.

        Where a policy has not been asked yet (`verdicts.open`), nothing is decided, and the reply is worth nothing.
        `asker` is `ControllerState.asker`.
        """
        self._open(now_ms)
        self.state.verdicts, self.state.asker = verdicts, asker
        decision = decision_on(command)(self.state, command, now_ms)
        return self._closed(Decision([], decision.reply) if verdicts is not None and verdicts.open else decision)

    def end_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """That registration's process has ended: the next `tick` fences the broker. False if it has no session."""
        return self.state.heartbeats.end(broker_id, epoch, now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do: perhaps at once, perhaps never. Each decision may change it."""
        return self._upkeep.next_deadline_ms

    def tick(self, now_ms: int) -> Decision[None] | None:
        self._open(now_ms)
        decision = self._closed(Decision(self._upkeep.due(now_ms), None))
        return decision if decision.records else None

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        """Takes the appended records of the last decision into the state."""
        for record in records:
            self.state.image.apply(record)
            self.state.next_offset += 1
        self.state.heartbeats.close_decision()

    def _open(self, now_ms: int) -> None:
        self._upkeep.begin(now_ms)
        self.state.heartbeats.open_decision()

    def _closed(self, decision: Decision[ReplyT]) -> Decision[ReplyT]:
        if not decision.records:
            self.state.heartbeats.close_decision()
            return decision
        return decision.replace(records=as_at(self.image.metadata_version, decision.records))
