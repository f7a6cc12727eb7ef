"""What all nodes of a cluster must agree upon, at every moment and over all their lives.

| what                         | rule |
| ---------------------------- | ---- |
| an epoch of the quorum       | has one leader, and one active controller |
| a node's epoch               | never goes back, not even over a restart; nor does its high watermark while it runs |
| the image at an offset       | is the same wherever and whenever a node is there |
| a batch of the metadata log  | of one offset and epoch is the same everywhere, and so is what precedes it |
| a broker epoch, a producer id | is given once |
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from penstock.metadata.image import ClusterImage


class Agreement:
    """Keeps what was seen anywhere; `violated` is told of contradictions."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._leaders: dict[int, str] = {}
        self._controllers: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._checksums: dict[int, tuple[str, str]] = {}
        self._batches: dict[tuple[int, int], tuple[int, int, str]] = {}
        self._broker_epochs: dict[int, tuple[int, UUID]] = {}
        self._producer_ids: dict[int, str] = {}
        self.committed = -1
        """The highest offset that was applied anywhere."""
        self.newest: ClusterImage | None = None
        """The image with the highest offset."""

    def in_epoch(self, node: str, epoch: int) -> None:
        before = self._epochs.get(node, 0)
        if epoch < before:
            self._violated(f"{node} goes back from epoch {before} to {epoch}")
        self._epochs[node] = epoch

    def leads(self, node: str, epoch: int) -> None:
        """No other node may lead in this epoch."""
        leader = self._leaders.setdefault(epoch, node)
        if leader != node:
            self._violated(f"{leader} and {node} lead epoch {epoch}")

    def controls(self, node: str, epoch: int) -> None:
        controller = self._controllers.setdefault(epoch, node)
        if controller != node:
            self._violated(f"{controller} and {node} are the active controller in epoch {epoch}")

    def applied(self, node: str, image: ClusterImage) -> None:
        """The node's image is whole up to its offset."""
        checksum = image.checksum()
        known, first = self._checksums.setdefault(image.offset, (checksum, node))
        if known != checksum:
            self._violated(f"at offset {image.offset} the image of {node} is not that of {first}")
        if image.offset >= self.committed:
            self.committed, self.newest = image.offset, image
        for broker in image.brokers.values():
            owner = self._broker_epochs.setdefault(broker.epoch, (broker.node_id, broker.incarnation_id))
            if owner != (broker.node_id, broker.incarnation_id):
                self._violated(f"broker epoch {broker.epoch} belongs to broker {owner[0]} and to {broker.node_id}")

    def log(self, node: str, batches: Iterable[tuple[int, int, int]]) -> None:
        """The whole metadata log of a node: base offset, epoch and CRC of each batch, in order."""
        before = -1
        for base_offset, epoch, crc in batches:
            known = self._batches.setdefault((base_offset, epoch), (crc, before, node))
            if known[0] != crc or (-1 not in (before, known[1]) and known[1] != before):
                self._violated(f"the batch at {base_offset} of epoch {epoch} is not the same at {node} and {known[2]}")
            if known[1] == -1:
                self._batches[base_offset, epoch] = (crc, before, node)
            before = epoch

    def producer_id(self, producer_id: int, owner: str) -> None:
        first = self._producer_ids.setdefault(producer_id, owner)
        if first != owner:
            self._violated(f"producer id {producer_id} was given to {first} and to {owner}")
