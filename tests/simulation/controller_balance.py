"""What must hold of the moves by which the controller balances leadership, seen from outside.

* it moves one partition at a time: the brokers of the last one know of it, or it took too long, or something else
  became of it
* it takes the smallest partition that could move
* nothing moves while a replica of any partition catches up, but for what is given back
"""

from collections.abc import Sequence

from tests.simulation.controller_invariants import must

from penstock.controller.controller import Controller
from penstock.controller.partition_change import Electorate
from penstock.leadership.balancer import Move
from penstock.metadata.partition_index import each
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.protocol.internal_topics import STORAGE_GROUPS


class BalanceInvariants:
    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._known: dict[int, int] = {}
        """Up to which offset each broker has ever said to have applied the metadata log."""
        self._last: tuple[Move, int, int] | None = None
        self.moves = 0

    def told(self, broker_id: int, offset: int) -> None:
        """A broker says how far it is."""
        self._known[broker_id] = max(self._known.get(broker_id, -1), offset)

    def decided(self, controller: Controller, records: Sequence[MetadataRecord], offset: int, now_ms: int) -> None:
        """The controller has decided by itself, and has not applied it yet; the first record gets this offset."""
        moves = [move for record in records if (move := self._free_move(controller, record)) is not None]
        must(len(moves) < 2, "two move at once:", moves)
        if not moves:
            return
        self._check_last(controller, now_ms)
        if not moves[0].is_back:
            self._check_choice(controller, moves[0])
            self.moves += 1
        self._last = moves[0], offset, now_ms

    def _free_move(self, controller: Controller, record: MetadataRecord) -> Move | None:
        """What the record moves from a leader that could go on; one that goes leaves the ISR with it."""
        if not isinstance(record, PartitionChangeRecord) or record.leader < 0 or record.isr is not None:
            return None
        topic = controller.image.topics_by_id[record.topic_id]
        partition = topic.partitions[record.partition_id]
        giver, index = partition.leader, record.partition_id
        if giver == record.leader or giver not in partition.isr:
            return None
        if not Electorate(controller.state).may_lead(partition, giver):
            return None
        epoch, is_back = partition.leader_epoch + 1, record.leader != partition.replicas[0]
        return Move(topic.name, topic.topic_id, index, epoch, giver, record.leader, is_back)

    def _check_last(self, controller: Controller, now_ms: int) -> None:
        if self._last is None:
            return
        last, offset, since_ms = self._last
        if last.partition_in(controller.image) is None or now_ms >= since_ms + self._timeout_ms:
            return
        for broker_id in (last.giver, last.taker):
            broker = controller.image.brokers.get(broker_id)
            knows = broker is None or not broker.active or self._known.get(broker_id, -1) >= offset
            must(knows, f"the next one moves, and broker {broker_id} does not know yet of", last)

    def _check_choice(self, controller: Controller, chosen: Move) -> None:
        image, electorate = controller.image, Electorate(controller.state)
        for topic in image.topics.values():
            for partition in () if topic.by_consensus else topic.partitions.values():
                behind = [it for it in partition.replicas if it not in partition.isr and image.is_served(partition, it)]
                must(not behind, "it moves while a replica catches up:", topic.name, partition, chosen)
        for name, index in each(image.index.moved):
            if name == STORAGE_GROUPS and index in controller.state.balancer.kept:
                continue
            partition = image.topics[name].partitions[index]
            taker = partition.replicas[0]
            could = taker in partition.isr and electorate.may_lead(partition, taker)
            is_smaller = (name, index) < (chosen.topic, chosen.index)
            is_late = taker in controller.state.balancer.late
            must(is_late or not (could and is_smaller), f"{name}-{index} could have moved before", chosen)
