"""What a machine on a partition asks of the node that runs it: effects, which are carried out in their order."""

from collections.abc import Callable

from penstock.protocol.schema import Message
from penstock.protocol.value import Value

Token = object
"""Stands for a request that waits: the node hands it in with the event and gets it back with the answer."""

KeyValue = tuple[bytes, bytes | None]
"""A value of None is a tombstone."""


class Reply(Value):
    """Each token is answered exactly once."""

    token: Token
    response: object


class End(Value):
    """Of a producer's transaction, as the coordinator of transactions of this epoch wants it."""

    coordinator_epoch: int
    is_commit: bool


class Part(Value):
    """A batch is part of a producer's transaction: its records, or with `end` the marker that ends it."""

    producer_id: int
    producer_epoch: int
    end: End | None = None


class Append(Value):
    """One batch; when it is committed or has failed, report `appended(write_id, …)`, in the order of offsets. A marker
    has no records.
    """

    write_id: int
    records: list[KeyValue]
    part: Part | None = None


class Cut(Value):
    """The log may begin at this offset: what lies before it, all of it committed, is needed no more."""

    offset: int


class Note(Value):
    line: str


# -- errands ----------------------------------------------------------------------------------------------------------


class ToLeader(Value):
    """A request to the leader of a partition: to the machine that lives there, or to write to its log."""

    topic: str
    partition: int
    request: Message
    answer: type[Message]


class ToController(Value):
    """A request to the active controller, say to create topics."""

    request: Message
    answer: type[Message]


class Calculation(Value):
    """What would hold the event loop for too long; done in a thread, so it takes all that it needs along.

    Where clients say how long it takes it is done `in_turn`: one at a time of all such, and nothing else waits for it.
    """

    function: Callable[[], object]
    in_turn: bool = False


class Markers(Value):
    """The end of a transaction, to be written to the log of each of these partitions, given by topic and index.

    Brings an error for each: NONE where it is committed there, UNKNOWN_TOPIC_OR_PARTITION where there is no such
    partition any more. They come in parts (`came_in_part`), as brokers answer.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool
    transaction_version: int
    partitions: tuple[tuple[str, int], ...]


class AtShareCoordinators(Value):
    """A request about share partitions of one group, to all that coordinate some of them.

    Brings the response as if there were one; in it, what could not be asked has an error.
    """

    request: Message
    answer: type[Message]


class NewProducerId(Value):
    """Brings an id that no producer had."""


Job = ToLeader | ToController | Calculation | Markers | AtShareCoordinators | NewProducerId


class Errand(Value):
    """A job that is done outside of the machine, in one try; `came_back(errand_id, …)` follows, unless it has ended."""

    errand_id: int
    job: Job


Effect = Reply | Append | Cut | Note | Errand
