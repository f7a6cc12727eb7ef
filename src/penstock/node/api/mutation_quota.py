"""`controller_mutation_rate` (KIP-599): how many partitions a client may create and delete per second.

The active controller counts, for whichever broker hands a request on. From the versions on in which clients know the
error, a topic is refused with THROTTLING_QUOTA_EXCEEDED while the client owes, and the others of the request are tried;
older ones are obeyed, and their clients wait. What is taken for a topic that is then refused for another reason is
given back. The answer says how long the client has to wait, and the broker that it came to mutes it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from penstock.metadata.quotas.bucket import Bucket
from penstock.metadata.quotas.entities import MAX_NAME
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import NODE
from penstock.node.serving.throttle import ClientThrottle
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import AnyApiKey, ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.refusals import refused
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

Submit = Callable[[Message], Awaitable[Any]]
EXCEEDED: Final = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


class Count(Protocol):
    def __call__(self, node: ControllerNode, topic: Any, /) -> int:
        """The partitions that change if it is done."""


class Mutation(Value):
    """The fields of a request for its topics, that of the answer, and from which version on topics are refused."""

    asked: tuple[str, ...]
    told: str
    strict_since: int
    count: Count


def _created(node: ControllerNode, topic: Any) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return max(0, node.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions)


def _added(node: ControllerNode, topic: Any) -> int:
    known = node.image.topics.get(topic.name)
    return 0 if known is None else max(0, topic.count - len(known.partitions))


def _deleted(node: ControllerNode, topic: Any) -> int:
    by_name = topic if isinstance(topic, str) else topic.name
    known = node.image.topics.get(by_name) if by_name is not None else node.image.topics_by_id.get(topic.topic_id)
    return 0 if known is None else len(known.partitions)


MUTATIONS: Final[Mapping[AnyApiKey, Mutation]] = {
    ApiKey.CREATE_TOPICS: Mutation(("topics",), "topics", 6, _created),
    ApiKey.DELETE_TOPICS: Mutation(("topics", "topic_names"), "responses", 5, _deleted),
    ApiKey.CREATE_PARTITIONS: Mutation(("topics",), "results", 3, _added),
}


def limited(node: ControllerNode, throttle: ClientThrottle, context: RequestContext, submit: Submit) -> Submit:
    """`submit`, for what this client may still do."""

    async def answer(request: Message) -> Any:
        mutation = MUTATIONS.get(api_of_request(request).key)
        if mutation is None or context.session.principal == NODE or getattr(request, "validate_only", False):
            return await submit(request)
        user, client_id = context.session.principal.name[:MAX_NAME], (context.client_id or "")[:MAX_NAME]
        bucket = throttle.machine.client(user, client_id, throttle.now_ms()).mutation
        if bucket is None:
            return await submit(request)
        return await _Taking(node, throttle, bucket, mutation).answer(request, context.api_version, submit)

    return answer


class _Taking:
    """One request, and what was taken for its topics."""

    def __init__(self, node: ControllerNode, throttle: ClientThrottle, bucket: Bucket, mutation: Mutation) -> None:
        self._node = node
        self._throttle = throttle
        self._bucket = bucket
        self._mutation = mutation
        self._taken: dict[object, int] = {}

    async def answer(self, request: Message, version: int, submit: Submit) -> Any:
        is_strict = version >= self._mutation.strict_since
        kept: dict[str, list[Any]] = {}
        late: list[Any] = []
        for name in self._mutation.asked:
            kept[name] = []
            for topic in getattr(request, name):
                (kept[name] if self._takes(topic, is_strict=is_strict) else late).append(topic)
        try:
            is_left = any(kept.values()) or not late
            response: Any = api_of_request(request).response_class()
            if is_left:
                response = await submit(request.replace(**kept))
        except BaseException:
            self._give_back(self._taken)
            raise
        told = getattr(response, self._mutation.told)
        self._give_back(_key(result) for result in told if result.error_code)
        told += [refused(response, self._mutation.told, topic, EXCEEDED) for topic in late]
        if late or not is_strict:
            owed_ms = self._bucket.owed_ms(self._throttle.now_ms())
            self._bucket.throttled_ms += owed_ms
            response.throttle_time_ms = owed_ms
        return response

    def _takes(self, topic: Any, *, is_strict: bool) -> bool:
        now_ms = self._throttle.now_ms()
        if is_strict and self._bucket.owed_ms(now_ms):
            return False
        count = self._mutation.count(self._node, topic)
        self._bucket.take(count, now_ms)
        self._taken[_key(topic)] = self._taken.get(_key(topic), 0) + count
        return True

    def _give_back(self, keys: Iterable[object]) -> None:
        for key in list(keys):
            self._bucket.give_back(self._taken.pop(key, 0))


def _key(topic: Any) -> object:
    """What a topic is called in the request and in the answer."""
    if isinstance(topic, str):
        return topic
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    return topic.name if topic_id == ZERO_UUID or topic.name is not None else topic_id
