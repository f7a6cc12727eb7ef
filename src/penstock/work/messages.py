"""What workers say to each other through their coordinator, which does not look inside but for the position.

A worker's metadata says who it is and what it runs; the leader's assignment is the same for all members, so that the
next leader knows what was decided before. Both are JSON behind a small head of bytes.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value
from penstock.protocol.work import HEAD, METADATA_VERSION
from penstock.work.incremental import Step, Waiting
from penstock.work.plan import Member

ASSIGNMENT_VERSION: Final = 0
_VERSION: Final = struct.Struct(">h")


class Metadata(Value):
    """`url` is the worker's REST interface."""

    member: Member
    url: str = ""


class Assignment(Value):
    leader: str
    leader_url: str
    step: Step


def encode_metadata(metadata: Metadata) -> bytes:
    member = metadata.member
    words = {"name": member.name, "owned": list(member.owned), "capacity": member.capacity, "url": metadata.url}
    has = {"cores": member.cores, "memory_mb": member.memory_mb}
    words |= {name: number for name, number in has.items() if number is not None}
    return HEAD.pack(METADATA_VERSION, member.position) + _json(words)


def decode_metadata(data: bytes) -> Metadata:
    """DecodeError."""
    if len(data) < HEAD.size:
        raise DecodeError(f"metadata of a worker has at least {HEAD.size} bytes, and these are {len(data)}")
    _, position = HEAD.unpack_from(data)
    words = _parsed(data[HEAD.size :])
    try:
        has = {name: int(words[name]) for name in ("cores", "memory_mb") if name in words}
        owned, capacity = tuple(map(str, words["owned"])), int(words.get("capacity", 1))
        member = Member(str(words["name"]), position, owned, capacity, **has)
        return Metadata(member, str(words.get("url", "")))
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"metadata of a worker is not as it should be: {error!r}") from error


def encode_assignment(assignment: Assignment) -> bytes:
    words = {
        "leader": assignment.leader,
        "leader_url": assignment.leader_url,
        "plan": assignment.step.plan,
        "moving": assignment.step.moving,
        "waiting": [[one.task, one.worker, one.left_ms] for one in assignment.step.waiting],
    }
    return _VERSION.pack(ASSIGNMENT_VERSION) + _json(words)


def decode_assignment(data: bytes) -> Assignment:
    """DecodeError."""
    if len(data) < _VERSION.size:
        raise DecodeError("the assignment of a worker is empty")
    words = _parsed(data[_VERSION.size :])
    try:
        plan = {str(worker): tuple(map(str, names)) for worker, names in words["plan"].items()}
        waiting = tuple(Waiting(str(task), str(worker), int(left)) for task, worker, left in words["waiting"])
        return Assignment(
            str(words["leader"]), str(words["leader_url"]), Step(plan, waiting, tuple(map(str, words["moving"])))
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DecodeError(f"the assignment of a worker is not as it should be: {error!r}") from error


def _json(words: Mapping[str, object]) -> bytes:
    return json.dumps(words, separators=(",", ":")).encode()


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        words = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"what a worker said is not JSON: {error}") from error
    if not isinstance(words, dict):
        raise DecodeError("what a worker said is not an object of JSON")
    return words
