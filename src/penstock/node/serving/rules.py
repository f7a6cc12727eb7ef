"""What an API asks for, declared with it: clauses, all of which hold, each about a part of the request.

| clause   | without the right                                                                                |
| -------- | ------------------------------------------------------------------------------------------------ |
| `Whole`  | the whole request is refused, in the layout of its answer                                        |
| `Each`   | a topic, group or resource is taken out of the request before the handler sees it, and refused   |
| `Told`   | a thing is left out of the answer, or told without what needs the right                          |
| `Within` | what the handler says: it asks itself, since only it knows what a request is about, or for speed |

A clause only asks the `RequestContext`. `judged` is what stands between a decoded request and its handler; where a
request or its answer is about many things, they are judged in slices.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_CLUSTER, Right
from penstock.node.serving.session import Session
from penstock.node.serving.slices import Pace, Steps, comes_later, now_or_later
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.refusals import refused, refusing
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value


class Asker(Protocol):
    """The client that makes a request (`RequestContext`)."""

    api_version: int

    @property
    def session(self) -> Session: ...

    def allows(self, right: Right, name: str = CLUSTER_NAME) -> bool: ...

    def has(self, right: Right, name: str = CLUSTER_NAME) -> bool: ...

    def has_any(self, right: Right) -> Generator[None, None, bool]: ...

    def shows(self, right: Right, name: str) -> bool: ...


@dataclass(slots=True)
class Asking:
    """A request while it is judged: what is left of it, and what of it is refused."""

    node: Any
    context: Asker
    request: Any
    refused: list[tuple[str, Any, KafkaError, str | None]] = field(default_factory=list)
    """In which field of the answer, what the request said, why, and the name that may be told besides."""
    is_over: bool = False
    """Whether nothing is left that was asked for."""

    def allows(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return self.context.allows(right, name)

    def has(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return self.context.has(right, name)

    def has_any(self, right: Right) -> Generator[None, None, bool]:
        return self.context.has_any(right)

    def shows(self, right: Right, name: str) -> bool:
        return self.context.shows(right, name)


class Clause(Value):
    """A part of what an API asks for; as a text it is told in words."""

    def before(self, asking: Asking) -> Iterable[None]:
        """Judge the request, in steps where it names many things. Raises KafkaError where all of it is refused."""
        return ()

    def after(self, asking: Asking, response: Any) -> Iterable[None]:
        return ()

    @property
    def is_about_answers(self) -> bool:
        """Whether `after` has something to judge."""
        return False


Rule = tuple[Clause, ...]
Named = Callable[[Asking, Any], str | None]
"""The name of one thing in a request; None where there is nothing that the right could be about."""


def the_cluster(_: Any) -> Iterable[str]:
    return (CLUSTER_NAME,)


def the_group(request: Any) -> Iterable[str]:
    return (request.group_id,)


def said(_: Asking, thing: Any) -> str | None:
    """As the request has it."""
    if isinstance(thing, str):
        return thing
    name: str = thing.topic if "topic" in thing.__fields__ else thing.name
    return name


def topic_of(asking: Asking, thing: Any) -> str | None:
    """The topic may be given by its id, and only by that in versions that have no name."""
    if isinstance(thing, str):
        return thing
    if thing.topic_id == ZERO_UUID:
        return said(asking, thing) if thing.__fields__["name"].is_in(asking.context.api_version) else None
    known = asking.node.image.topics_by_id.get(thing.topic_id)
    return None if known is None else known.name


class Nothing(Clause):
    """Every client that can connect may: it has not authenticated yet, or the answer is no secret."""

    def __str__(self) -> str:
        return "nothing"


class Whole(Clause):
    """A right on everything that `names` finds in the request; `or_any` will do as well, on any one of its kind, or
    `or_else` on the same.
    """

    right: Right
    names: Callable[[Any], Iterable[str]] = the_cluster
    or_any: Right | None = None
    or_else: Right | None = None
    words: str = ""

    def before(self, asking: Asking) -> Iterable[None]:
        pace = Pace(THINGS_A_STEP)
        for name in self.names(asking.request):
            if not ((yield from self._has_another(asking, name)) or asking.allows(self.right, name)):
                raise self.right.refused()
            if pace.is_due():
                yield None

    def _has_another(self, asking: Asking, name: str) -> Generator[None, None, bool]:
        """Without the right itself."""
        if (self.or_any is None and self.or_else is None) or asking.has(self.right, name):
            return False
        if self.or_any is not None and (yield from asking.has_any(self.or_any)):
            return True
        return self.or_else is not None and asking.has(self.or_else, name)

    def __str__(self) -> str:
        rights = f"{self.right}" if self.or_any is None else f"{self.right}, or {self.or_any} for any one"
        if self.or_else is not None:
            rights = f"{rights}, or {self.or_else}"
        return f"{self.words}: {rights}" if self.words else rights


class ForAnother(Clause):
    """A right on a user, whom `named` finds in the request; who asks for itself needs none."""

    right: Right
    named: Callable[[Any], str | None]

    def before(self, asking: Asking) -> Iterable[None]:
        name = self.named(asking.request)
        if name not in (None, str(asking.context.session.principal)) and not asking.allows(self.right, name):
            raise self.right.refused()
        return ()

    def __str__(self) -> str:
        return f"{self.right}, for another user than the own"


class BetweenNodes(Whole):
    """What only nodes ask each other, so that no envelope brings it."""

    def __str__(self) -> str:
        return f"{self.right}: only between nodes"


class Each(Clause):
    """A right on each thing in lists of the request; a client with `unless` on the cluster has it on all.

    Those that are refused stand in the field `answers` of the response. `tells_name`: with the name, where the request
    had only an id. Where the kind of resource differs, `right` is a function; it gives None where none is asked.
    """

    right: Right | Callable[[Asking, Any], Right | None]
    fields: tuple[str, ...]
    answers: str
    name: Named = said
    unless: Right | None = None
    tells_name: bool = False
    words: str = ""

    def before(self, asking: Asking) -> Iterable[None]:
        if self.unless is not None and asking.has(self.unless):
            return
        verdicts: dict[tuple[Right, str | None], bool] = {}
        was_refused = len(asking.refused)
        for each in self.fields:
            things = getattr(asking.request, each)
            kept, pace = [], Pace(THINGS_A_STEP)
            for thing in things:
                if self._allowed(asking, thing, verdicts):
                    kept.append(thing)
                if pace.is_due():
                    yield None
            if len(kept) < len(things):
                asking.request = asking.request.replace(**{each: kept})
        if len(asking.refused) > was_refused:
            asking.is_over = not any(getattr(asking.request, each) for each in self.fields)

    def _allowed(self, asking: Asking, thing: Any, verdicts: dict[tuple[Right, str | None], bool]) -> bool:
        right = self.right if isinstance(self.right, Right) else self.right(asking, thing)
        name = self.name(asking, thing)
        if right is None or name is None:
            return True
        verdict = verdicts.get((right, name))
        if verdict is None:
            verdict = verdicts[right, name] = asking.allows(right, name)
        if not verdict:
            asking.refused.append((self.answers, thing, right.refused(), name if self.tells_name else None))
        return verdict

    @property
    def is_about_answers(self) -> bool:
        return True

    def __str__(self) -> str:
        each = self.words or f"{self.right} for each"
        return each if self.unless is None else f"{self.unless}, or {each}"


class Told(Clause):
    """A right on each thing in a list of the answer, or `unless` on the cluster.

    Those without are left out, or lose what `hide` takes away.
    """

    right: Right
    field: str
    name: Callable[[Any], str]
    unless: Right | None = None
    hide: Callable[[Any], None] | None = None
    words: str = "is left out"

    def after(self, asking: Asking, response: Any) -> Iterable[None]:
        if self.unless is not None and asking.has(self.unless):
            return
        left, pace = [], Pace(THINGS_A_STEP)
        for thing in getattr(response, self.field):
            if pace.is_due():
                yield None
            if asking.shows(self.right, self.name(thing)):
                left.append(thing)
            elif self.hide is not None:
                self.hide(thing)
                left.append(thing)
        setattr(response, self.field, left)

    @property
    def is_about_answers(self) -> bool:
        return True

    def __str__(self) -> str:
        without = f"what is without {self.right} {self.words}"
        return without if self.unless is None else f"{self.unless}, or {without}"


class Within(Clause):
    """A right that the handler asks for itself, and `words` for where it does and what comes of it."""

    right: Right
    words: str

    def __str__(self) -> str:
        return f"{self.right} {self.words}"


THINGS_A_STEP: Final = 32

NOTHING: Final = (Nothing(),)
OPERATIONS: Final = Within(DESCRIBE_CLUSTER, "to be told what may be done with the cluster")
BETWEEN_NODES: Final = (BetweenNodes(CLUSTER_ACTION),)


def judged(rule: Rule, answer: Callable[[Any], Any], node: Any, context: Asker, request: Any) -> Any:
    """What `answer` makes of the part of the request that the client has the rights for, and refusals of the rest."""
    asking = Asking(node, context, request)
    over = node.slices.answer(_before(rule, asking, request))
    if comes_later(over):
        return _answered_later(over, rule, answer, asking)
    return _answered(rule, answer, asking) if over is None else over


def _before(rule: Rule, asking: Asking, request: Any) -> Steps[Any]:
    """The whole answer, where nothing is left to ask the handler for."""
    try:
        for clause in rule:
            yield from clause.before(asking)
    except KafkaError as error:
        return (yield from refusing(request, error))
    if asking.is_over:
        return (yield from _completed(rule, asking, api_of_request(request).response_class()))
    return None


def _answered(rule: Rule, answer: Callable[[Any], Any], asking: Asking) -> Any:
    reply = answer(asking.request)
    if not any(clause.is_about_answers for clause in rule):
        return reply
    if comes_later(reply):
        return _completed_later(rule, asking, reply)
    return asking.node.slices.answer(_completed(rule, asking, reply))


async def _answered_later(judging: Awaitable[Any], rule: Rule, answer: Callable[[Any], Any], asking: Asking) -> Any:
    over = await judging
    return await now_or_later(_answered(rule, answer, asking)) if over is None else over


async def _completed_later(rule: Rule, asking: Asking, reply: Awaitable[Any]) -> Any:
    return await now_or_later(asking.node.slices.answer(_completed(rule, asking, await reply)))


def _completed(rule: Rule, asking: Asking, response: Any) -> Steps[Any]:
    for clause in rule:
        yield from clause.after(asking, response)
    pace = Pace(THINGS_A_STEP)
    for where, thing, error, name in asking.refused:
        item = refused(response, where, thing, error)
        if name is not None:
            item.name = name
        getattr(response, where).append(item)
        if pace.is_due():
            yield None
    return response
