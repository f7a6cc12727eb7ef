"""Whether a member may say what it says of records. KafkaError INVALID_RECORD_STATE or INVALID_REQUEST if not."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.in_flight import InFlight, RecordState, Run
from penstock.sharing.values import RENEW, Acknowledgement, ShareSettings


def check_in_flight(flight: InFlight, start_offset: int, it: Acknowledgement) -> None:
    first = max(it.first, start_offset)
    known = flight.reach(it.last)
    if known is None or known[0] > first:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "these records are not in flight")
    if it.last > known[1]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the last record is behind those that are in flight")


def check_renewal(settings: ShareSettings, kind: int) -> None:
    if kind == RENEW and not settings.renew_acknowledge_enable:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the group may not renew (share.renew.acknowledge.enable)")


def check_owner(member: str, run: Run, now_ms: int) -> None:
    if run.state is not RecordState.ACQUIRED or run.writing or run.locked_until_ms <= now_ms:
        reason = "is not acquired"
    elif run.member != member:
        reason = "belongs to another member"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"record {run.first} {reason}")
