"""Messages and effects of the consensus core in the words of its transcripts."""

from collections.abc import Callable
from typing import Any

from penstock.protocol.control.records import ControlType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.raft import effects as do
from penstock.raft import requests as ask
from penstock.raft.control import control_type

Answer = ask.VoteAnswer | ask.EpochAnswer


def told(item: Any) -> str:
    return WORDS[type(item)](item)


def persist(effect: do.Persist) -> str:
    state = effect.state
    leader = "" if state.leader_id is None else f" leader {state.leader_id}"
    voted = "" if state.voted is None else f" voted for {state.voted.id}"
    return f"persists epoch {state.epoch}{leader}{voted}"


def announce(effect: do.Announce) -> str:
    return f"{'nobody' if effect.leader_id is None else effect.leader_id} leads epoch {effect.epoch}"


def vote(request: ask.Vote) -> str:
    kind = "PreVote" if request.pre_vote else "Vote"
    return f"{kind} epoch {request.epoch} my log ends at {request.end_offset} with epoch {request.last_epoch}"


def common(answer: Answer) -> str:
    error = "" if answer.error is ErrorCode.NONE else f" {answer.error.name}"
    leader = "" if answer.leader_id is None else f" leader {answer.leader_id}"
    return f"epoch {answer.epoch}{leader}{error}"


def vote_answer(answer: ask.VoteAnswer) -> str:
    return f"{'yes' if answer.granted else 'no'}, {common(answer)}"


def end_epoch(request: ask.EndEpoch) -> str:
    successors = ", ".join(str(key.id) for key in request.successors)
    return f"EndQuorumEpoch {request.epoch}" + (f", next should be {successors}" if successors else "")


def fetch(request: ask.Fetch) -> str:
    promise, told = (
        request.promise,
        f"Fetch epoch {request.epoch} from {request.offset} after epoch {request.last_epoch}",
    )
    return (
        told
        if promise is None
        else f"{told}, got answer {promise.answer} and vote for nobody for {promise.length_ms} ms"
    )


def fetch_answer(answer: ask.FetchAnswer) -> str:
    if answer.error is not ErrorCode.NONE:
        return common(answer)  # type: ignore[arg-type]
    if answer.diverging is not None:
        return f"diverging: my epoch {answer.diverging.epoch} ends at {answer.diverging.end_offset}"
    if answer.snapshot is not None:
        return f"take the snapshot of {answer.snapshot.end_offset} records first"
    number = f"answer {answer.number}: " if answer.number else ""
    batches = ", ".join(records_of(answer.records)) or "nothing"
    return f"{number}{batches}; high watermark {answer.high_watermark}"


def records_of(records: bytes) -> list[str]:
    words = []
    for position, header in iterate_batches(records):
        for record in decode_batch(records, position):
            if header.is_control:
                what = ControlType(control_type(record)).name
            else:
                what = repr((record.value or b"").decode())
            words.append(f"{record.offset}: {what} of epoch {header.partition_leader_epoch}")
    return words


def change_answer(answer: ask.VoterChangeAnswer) -> str:
    return "done" if answer.error is ErrorCode.NONE else f"{answer.error.name}, {answer.message}"


WORDS: dict[type, Callable[[Any], str]] = {
    do.Persist: persist,
    do.Announce: announce,
    do.Commit: lambda effect: f"commits up to {effect.high_watermark}",
    do.Examine: lambda effect: f"sees whether it can read the snapshot of {effect.snapshot.end_offset} records",
    do.LoadSnapshot: lambda effect: f"loads the snapshot of {effect.snapshot.end_offset} records",
    ask.Vote: vote,
    ask.VoteAnswer: vote_answer,
    ask.BeginEpoch: lambda request: f"BeginQuorumEpoch {request.epoch}",
    ask.EpochAnswer: common,
    ask.EndEpoch: end_epoch,
    ask.Fetch: fetch,
    ask.FetchAnswer: fetch_answer,
    ask.FetchSnapshot: lambda request: f"FetchSnapshot of {request.snapshot.end_offset} records at {request.position}",
    ask.FetchSnapshotAnswer: lambda answer: (
        common(answer)
        if answer.error
        else f"bytes {answer.position} to {answer.position + len(answer.piece)} of {answer.size}"
    ),
    ask.AskVersions: lambda request: "ApiVersions",
    ask.AskVersionsAnswer: lambda answer: "kraft.version 0 to 1",
    ask.UpdateVoter: lambda request: f"UpdateRaftVoter kraft.version from {request.voter.min_kraft_version}",
    ask.AddVoter: lambda request: f"AddRaftVoter {request.key.id}",
    ask.RemoveVoter: lambda request: f"RemoveRaftVoter {request.key.id}",
    ask.VoterChangeAnswer: change_answer,
}
