"""Looks at a node after each of its events, and tells the ledger what it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.metadata.image import ClusterImage
from penstock.node.assembly.quorum_start import QuorumParts
from penstock.protocol.batch import read_header
from penstock.raft.ports import Log
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import Process
from penstock.testing.simulator.plan import NodePlan
from penstock.testing.simulator.trace import Trace

READ_BYTES = 1 << 20


class Observer:
    """One node, over all its processes."""

    def __init__(self, node: NodePlan, ledger: Ledger, trace: Trace) -> None:
        self._name = node.name
        self._node_id = node.node_id
        self._ledger = ledger
        self._leader_moves = ledger.leader_moves
        self._agreement = ledger.agreement
        self._violated = ledger.violated
        self._trace = trace
        self._parts: QuorumParts | None = None
        self._epoch = self._written = -1
        self._leader: int | None = None
        self.on_event: Callable[[], None] | None = None
        self.controls_since: float | None = None
        """Since when it is the active controller without a pause, as far as it knows."""
        self._high_watermark = 0

    @property
    def leads(self) -> bool:
        """The quorum, as far as the node knows."""
        return self._parts is not None and self._parts.quorum.is_leader(self._epoch)

    @property
    def image(self) -> ClusterImage:
        assert self._parts is not None
        return self._parts.context.image

    def begun(self, process: Process, parts: QuorumParts) -> None:
        """The node has its parts, and waits for nothing yet."""
        self._parts = parts
        self._epoch = self._written = -1
        self._high_watermark = 0
        self._watch_image(parts.context.image)
        process.watch = self._look

    def ended(self) -> None:
        self._parts = None
        self.controls_since = None

    def went_on(self) -> None:
        """After a pause the process counts as the active controller only from now on."""
        if self.controls_since is not None:
            self.controls_since = self._trace.now()

    @property
    def has_failed(self) -> bool:
        """Whether the directory of the metadata log is offline: the node is about to end."""
        return self._parts is not None and self._parts.context.directories.roots.why_unusable() is not None

    def check_log(self) -> None:
        if self._parts is not None:
            self._agreement.log(self._name, _batches(self._parts.quorum._log))

    def _look(self) -> None:
        assert self._parts is not None
        if self.on_event is not None:
            self.on_event()
        quorum = self._parts.quorum
        epoch, leader = quorum.epoch, quorum.leader_id
        if epoch != self._written and quorum.is_running and not quorum._is_persisting:
            self._written = epoch  # unwritten state was not sent to any peer
            self._agreement.in_epoch(self._name, epoch)
        if epoch != self._epoch or leader != self._leader:
            self._epoch, self._leader = epoch, leader
            if quorum.is_leader(epoch):
                self._agreement.leads(self._name, epoch)
            self._trace.note(self._name, f"epoch {epoch}, leader {leader}, {quorum.role_name}")
        high_watermark = quorum.high_watermark
        if high_watermark < self._high_watermark:
            self._violated(f"{self._name}: its high watermark was {self._high_watermark} and is {high_watermark}")
        self._high_watermark = high_watermark
        controller = self._parts.controller
        controls = controller is not None and controller.is_active
        if controller is not None and controller._controller is not None:
            state = controller._controller.state
            if state.balancer.move is not None:
                self._leader_moves.look(state, self._trace.now())
        if controls != (self.controls_since is not None):
            self.controls_since = self._trace.now() if controls else None
            if controller is not None and controls:
                self._agreement.controls(self._name, controller.epoch)
            self._trace.note(self._name, "controls the cluster" if controls else "controls the cluster no longer")

    def _applied(self, image: ClusterImage) -> None:
        self._agreement.applied(self._name, image)
        self._ledger.look_at_recoveries()
        self._leader_moves.applied(self._node_id, image.offset)

    def _watch_image(self, image: ClusterImage) -> None:
        """Called whenever the records of a batch or a snapshot were applied."""
        applied_to, become = image.applied_to, image.become

        def applied(offset: int) -> None:
            applied_to(offset)
            self._applied(image)

        def became(other: ClusterImage) -> None:
            become(other)
            self._applied(image)

        image.applied_to = applied  # type: ignore[method-assign]  # a look at each batch, not at each event only
        image.become = became  # type: ignore[method-assign]  # the same


def _batches(log: Log) -> Iterator[tuple[int, int, int]]:
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, READ_BYTES)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            yield header.base_offset, header.partition_leader_epoch, header.crc
            position += header.size_in_bytes
            offset = header.last_offset + 1
