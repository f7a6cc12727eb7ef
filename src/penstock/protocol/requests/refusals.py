"""Answers that refuse: a whole request, or one thing that it asks for, in the layout of the API's response.

The error stands wherever the layout has room for one: beside each thing that was asked for, or else at the top. A
refused thing is told as the request told it, and nothing else is said of it.
"""

from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.api import AnyApiKey, ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

T = TypeVar("T")

_SAID: Final = (
    "name",
    "topic",
    "topic_id",
    "partition",
    "partition_index",
    "topic_name",
    "group_id",
    "key",
    "resource_type",
    "resource_name",
    "producer_id",
    "entity_type",
    "entity_name",
)
"""They identify a thing; requests and responses share them."""
_PARTS: Final = {
    "entity": ("entity",),
    "partitions": ("partitions", "partition_indexes"),
    "partition_result": ("partitions",),
    "topics": ("topics",),
}
"""By a response item's field for its parts: the request's field for the same."""
_BARE: Final = ("name", "group_id", "transactional_id", "key", "partition_index", "partition_id")
"""The response's field for an item that is a mere name or number in the request."""
NOWHERE: Final = ""
"""The request has no such parts."""
_TOKEN_TIMES: Final = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")
_NONE: Final[dict[str, int | None]] = {
    **dict.fromkeys(("producer_epoch", "low_watermark", "node_id", "port", "committed_offset", *_TOKEN_TIMES), -1),
    "entries": None,
}
"""Fields whose default would have a meaning."""


_BESIDE_EACH: Final[dict[AnyApiKey, tuple[str, Callable[[Any], Iterable[Any]]]]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries", lambda request: request.entries),
    ApiKey.ALTER_CONFIGS: ("responses", lambda request: request.resources),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("responses", lambda request: request.topics),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("results", lambda request: [it for one in request.dirs for it in one.topics]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results", lambda request: [*request.deletions, *request.upsertions]),
    ApiKey.CREATE_ACLS: ("results", lambda request: request.creations),
    ApiKey.CREATE_PARTITIONS: ("results", lambda request: request.topics),
    ApiKey.CREATE_TOPICS: ("topics", lambda request: request.topics),
    ApiKey.DELETE_ACLS: ("filter_results", lambda request: request.filters),
    ApiKey.DELETE_SHARE_GROUP_STATE: ("results", lambda request: request.topics),
    ApiKey.DELETE_TOPICS: ("responses", lambda request: [*request.topic_names, *request.topics]),
    ApiKey.ELECT_LEADERS: ("replica_election_results", lambda request: request.topic_partitions or ()),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses", lambda request: request.resources),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ("results", lambda request: request.topics),
    ApiKey.OFFSET_COMMIT: ("topics", lambda request: request.topics),
    ApiKey.READ_SHARE_GROUP_STATE: ("results", lambda request: request.topics),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ("results", lambda request: request.topics),
    ApiKey.TXN_OFFSET_COMMIT: ("topics", lambda request: request.topics),
    ApiKey.WRITE_SHARE_GROUP_STATE: ("results", lambda request: request.topics),
    ApiKey.WRITE_TXN_MARKERS: ("markers", lambda request: request.markers),
}
"""The response's field with an error beside each thing, if the whole request is refused."""


THINGS_AT_ONCE: Final = 100


def refusal(request: Message, error: KafkaError) -> Any:
    """Of a request that is small; others have their turn in the middle of `refusing`."""
    return _at_once(refusing(request, error))


def refusing(request: Message, error: KafkaError) -> Generator[None, Any, Any]:
    """The refusal, in steps of some things each."""
    api = api_of_request(request)
    response = _with_error(api.response_class, error)
    if api.key in _BESIDE_EACH:
        field, things = _BESIDE_EACH[api.key]
        kind = response.__fields__[field].kind
        setattr(response, field, (yield from _Refusing(error).all(kind, things(request))))
    return response


def refused(response: Message, field: str, thing: object, error: KafkaError) -> Any:
    """The item of `field` that refuses one thing of the request."""
    return _at_once(_Refusing(error).one(response.__fields__[field].kind, thing))


def _at_once(steps: Generator[None, Any, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class _Layout(NamedTuple):
    """What a response item takes from a thing of the request, found once for each pair of their classes."""

    said: tuple[tuple[str, str], ...]
    """The response's field and the request's."""
    parts: tuple[tuple[str, str, Any], ...]
    """The same for fields of parts, and the class of the response's."""
    fixed: dict[str, str]


@cache
def _layout(item_class: Any, thing_class: type[Message]) -> _Layout:
    fields, asked = item_class.__fields__, thing_class.__fields__
    said: dict[str, str] = {name: name for name in _SAID if name in fields and name in asked}
    fixed = dict[str, str]()
    for name in ("user", "topic_name"):
        if name in fields and name not in said:
            if "name" in asked:
                said[name] = "name"
            else:
                fixed[name] = ""
    found = ((name, next((one for one in origins if one in asked), NOWHERE)) for name, origins in _PARTS.items())
    parts = tuple((name, origin, fields[name].kind) for name, origin in found if name in fields)
    return _Layout(tuple(said.items()), parts, fixed)


class _Refusing:
    def __init__(self, error: KafkaError) -> None:
        self._error = error
        self._made = 0

    def all(self, item_class: Any, things: Iterable[object]) -> Generator[None, Any, list[Any]]:
        items = []
        for thing in things:
            items.append((yield from self.one(item_class, thing)))  # noqa: PERF401 # a comprehension has no steps
        return items

    def one(self, item_class: Any, thing: object) -> Generator[None, Any, Any]:
        """The item that refuses the thing, and its parts."""
        self._made += 1
        if self._made % THINGS_AT_ONCE == 0:
            yield
        if not isinstance(thing, Message):
            field = next(name for name in _BARE if name in item_class.__fields__)
            return _with_error(item_class, self._error, **{field: thing})
        said, parts, fixed = _layout(item_class, type(thing))
        values: dict[str, Any] = {name: getattr(thing, origin) for name, origin in said} | fixed
        for name, origin, kind in parts:
            values[name] = yield from self.all(kind, getattr(thing, origin, None) or ())
        return _with_error(item_class, self._error, **values)


def _with_error(message_class: Any, error: KafkaError, **values: Any) -> Any:
    """Messages have fields for the code or its text, both, or neither."""
    fields = message_class.__fields__
    if "error_code" in fields:
        values["error_code"] = error.code
    if "error_message" in fields:
        values["error_message"] = error.message
    return message_class(**_nothing(message_class), **values)


@cache
def _nothing(message_class: Any) -> dict[str, int | None]:
    return {name: it for name, it in _NONE.items() if name in message_class.__fields__}
