"""The voters are changed while the quorum runs: one at a time (KIP-853), once the log names them with their disks.

Voters that are fixed in the configuration are nodes, whatever disk they have. Each tells a leader in its epoch which
disk that is, and where it listens; `upgrade` writes to the log what all have told. That is the same quorum: a majority
of the named replicas is one of the nodes.

Two majorities of neighbouring quorums always overlap, so the new quorum holds as soon as its record is in the leader's
log. The next change waits until that record is committed, and the first until the leader has committed something in its
epoch: a leader whose knowledge of the voters is not committed yet must not build upon it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.protocol.control.records import control_batch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.uuids import uuid_to_text
from penstock.raft.control import kraft_version_record, voters_record_of
from penstock.raft.effects import Reply, Send, Token
from penstock.raft.progress import ReplicaTable
from penstock.raft.replica import Replica
from penstock.raft.requests import (
    AddVoter,
    AskVersions,
    AskVersionsAnswer,
    EpochAnswer,
    RemoveVoter,
    UpdateVoter,
    VoterChangeAnswer,
)
from penstock.raft.settings import NEVER
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter

REMOVAL_TIMEOUT_MS = 30_000
"""How long the client that asks waits; the change may be committed later all the same."""


@dataclass(slots=True)
class PendingChange:
    """`offset` is that of its record, once it is in the log."""

    token: Token
    deadline_ms: int
    question: AskVersions | None = None
    request: AddVoter | UpdateVoter | RemoveVoter | None = None
    offset: int | None = None


def _is_led_no_longer(_: bytearray, __: int) -> None:
    raise AssertionError("who leads no longer appends nothing")


class VoterChanges:
    """`append` appends a batch to the leader's log and answers fetches that wait for it; `replicas` send these."""

    __slots__ = ("_append_batch", "_epoch_start_offset", "_pending", "_replica", "_replicas", "_told")

    def __init__(
        self,
        replica: Replica,
        replicas: ReplicaTable,
        epoch_start_offset: int,
        append: Callable[[bytearray, int], None],
    ) -> None:
        self._replica = replica
        self._replicas = replicas
        self._epoch_start_offset = epoch_start_offset
        self._append_batch = append
        self._pending: PendingChange | None = None
        self._told: dict[int, Voter] = {replica.me.id: replica.local}

    @property
    def deadline_ms(self) -> int:
        """When the client that asked for a change is told that it takes too long."""
        return NEVER if self._pending is None else self._pending.deadline_ms

    def add(self, request: AddVoter, token: Token, now_ms: int) -> None:
        """Ask a replica which levels of `kraft.version` it understands; `versions_answered` makes it a voter."""
        quorum = self._replica.quorum
        if (why := self._obstacle()) is not None:
            self._answer(token, why)
        elif quorum.voter(request.key.id) is not None:
            text = f"node {request.key.id} is a voter already"
            self._answer(token, VoterChangeAnswer(ErrorCode.DUPLICATE_VOTER, text))
        else:
            question = AskVersions(request.key, request.endpoints)
            self._pending = PendingChange(token, now_ms + max(request.timeout_ms, 0), question, request)
            self._replica.out.append(Send(request.key.id, question))

    def versions_answered(self, question: AskVersions, answer: AskVersionsAnswer, now_ms: int) -> None:
        """Make the replica a voter if it understands the level of the quorum and has caught up."""
        pending = self._pending
        if pending is None or pending.question is not question or not isinstance(pending.request, AddVoter):
            return
        why = self._unfit(question.key, answer, now_ms)
        if why is not None:
            self._finish(why, self._replica.me.id)
            return
        pending.question = None
        voter = Voter(question.key, question.endpoints, answer.min_kraft_version, answer.max_kraft_version)
        self._append(pending, self._replica.quorum.with_voter(voter), now_ms)
        if not pending.request.ack_when_committed:
            self._finish(VoterChangeAnswer(ErrorCode.NONE), self._replica.me.id)

    def remove(self, request: RemoveVoter, token: Token, now_ms: int) -> None:
        """The leader may remove itself: it resigns when that is committed."""
        quorum = self._replica.quorum
        if (why := self._obstacle()) is not None:
            self._answer(token, why)
        elif (voter := quorum.voter(request.key.id)) is None or voter.key != request.key:
            # Exactly this key: the directory id keeps a late command from removing the node's next incarnation.
            text = f"node {request.key.id} with the directory {uuid_to_text(request.key.directory_id)} is not a voter"
            self._answer(token, VoterChangeAnswer(ErrorCode.VOTER_NOT_FOUND, text))
        elif len(quorum.voters) == 1:
            self._answer(token, VoterChangeAnswer(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed"))
        else:
            self._pending = PendingChange(token, now_ms + REMOVAL_TIMEOUT_MS, request=request)
            self._append(self._pending, quorum.without(request.key), now_ms)

    def update(self, request: UpdateVoter, token: Token, now_ms: int) -> None:
        """New endpoints, and which levels of `kraft.version` it understands."""
        replica, voter = self._replica, request.voter
        is_fixed = replica.quorum.kraft_version < DYNAMIC_VOTERS
        error = self._update_error(voter, is_fixed=is_fixed)
        if is_fixed and error is ErrorCode.NONE:
            self._told[voter.key.id] = voter
        if is_fixed or error is not ErrorCode.NONE:
            replica.out.append(Reply(token, EpochAnswer(error, replica.me.id, replica.epoch)))
            return
        self._pending = PendingChange(token, now_ms + REMOVAL_TIMEOUT_MS, request=request)
        self._append(self._pending, replica.quorum.with_voter(voter), now_ms)

    def _update_error(self, voter: Voter, *, is_fixed: bool) -> ErrorCode:
        quorum, why = self._replica.quorum, self._obstacle()
        if why is not None and not is_fixed:
            return why.error
        if not quorum.has(voter.key):
            return ErrorCode.VOTER_NOT_FOUND
        is_whole = voter.can_be_named or not is_fixed
        return ErrorCode.NONE if is_whole and voter.supports(quorum.kraft_version) else ErrorCode.INVALID_REQUEST

    def upgrade(self, kraft_version: int, now_ms: int, *, validate_only: bool) -> None:
        """From now on voters may change: the log names them all. Raises KafkaError INVALID_UPDATE_VERSION."""
        replica = self._replica
        if kraft_version == replica.quorum.kraft_version:
            return
        if (why := self._unready(kraft_version)) is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot be set to level {kraft_version}: {why}"
            )
        if validate_only:
            return
        named = Quorum.of([self._told[node_id] for node_id in replica.quorum.ids], kraft_version)
        records = [kraft_version_record(kraft_version, now_ms), voters_record_of(named, now_ms)]
        # One batch: nowhere is there a quorum that may change and whose voters have no names.
        self._append_batch(control_batch(records, base_offset=replica.log.end_offset, epoch=replica.epoch), now_ms)

    def _unready(self, kraft_version: int) -> str | None:
        quorum = self._replica.quorum
        if kraft_version < quorum.kraft_version:
            return "the log names the voters, and that cannot be taken back"
        if self._replica.high_watermark <= self._epoch_start_offset:
            return "the leader has committed nothing in its epoch yet; ask again in a moment"
        silent = [
            node_id for node_id in quorum.ids if node_id not in self._told or not self._told[node_id].can_be_named
        ]
        if silent:
            return (
                f"the leader does not know the directory and the listener of the voters {silent}: they tell it soon"
                " after they have begun to follow it; see that they run, and with a release that does so"
            )
        unable = [node_id for node_id in quorum.ids if not self._told[node_id].supports(kraft_version)]
        return f"the voters {unable} do not support it: start a newer release there" if unable else None

    def committed(self) -> None:
        pending = self._pending
        if pending is not None and pending.offset is not None and pending.offset < self._replica.high_watermark:
            self._finish(VoterChangeAnswer(ErrorCode.NONE), self._replica.me.id)

    def tick(self, now_ms: int) -> None:
        if self._pending is not None and now_ms >= self._pending.deadline_ms:
            self._finish(
                VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "the change took too long; it may still come"),
                self._replica.me.id,
            )

    def leave(self, leader_id: int | None) -> None:
        """The leader does not know what becomes of the change; `leader_id` leads now, if that is known."""
        if self._pending is not None:
            text = "the leader went before the change was known to be committed"
            self._finish(VoterChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, text), leader_id)

    def end(self, leader_id: int | None) -> None:
        """It leads no longer, and is not kept by what it has made."""
        self.leave(leader_id)
        self._append_batch = _is_led_no_longer

    def _obstacle(self) -> VoterChangeAnswer | None:
        replica = self._replica
        if replica.quorum.kraft_version < DYNAMIC_VOTERS:
            return VoterChangeAnswer(ErrorCode.UNSUPPORTED_VERSION, "the voters of this quorum are fixed")
        if replica.high_watermark <= self._epoch_start_offset:
            return VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "the leader has committed nothing in its epoch yet")
        if self._pending is not None or replica.voters.latest_offset >= replica.high_watermark:
            return VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way")
        return None

    def _unfit(self, key: ReplicaKey, answer: AskVersionsAnswer, now_ms: int) -> VoterChangeAnswer | None:
        if answer.error is not ErrorCode.NONE:
            return VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} does not answer")
        if not answer.min_kraft_version <= self._replica.quorum.kraft_version <= answer.max_kraft_version:
            return VoterChangeAnswer(ErrorCode.INVALID_REQUEST, f"node {key.id} is too old, or too new")
        progress = self._replicas.find(key)
        longest_ms = self._replica.settings.check_quorum_timeout_ms
        if progress is None or progress.caught_up_ms < 0 or now_ms - progress.caught_up_ms > longest_ms:
            # A voter that lags behind would only make the majority harder to reach.
            return VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} has not caught up with the leader")
        return None

    def _append(self, pending: PendingChange, quorum: Quorum, now_ms: int) -> None:
        replica = self._replica
        pending.offset = replica.log.end_offset
        record = voters_record_of(quorum, now_ms)
        self._append_batch(control_batch([record], base_offset=pending.offset, epoch=replica.epoch), now_ms)

    def _finish(self, answer: VoterChangeAnswer, leader_id: int | None) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None, "somebody waits"
        if isinstance(pending.request, UpdateVoter):
            update = EpochAnswer(answer.error, leader_id, self._replica.epoch)
            self._replica.out.append(Reply(pending.token, update))
        else:
            self._answer(pending.token, answer)

    def _answer(self, token: Token, answer: VoterChangeAnswer) -> None:
        self._replica.out.append(Reply(token, answer))
