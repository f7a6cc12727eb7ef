"""What only a broker can judge of its own configs, whichever API changes them: cordoned directories that it does not
have (KIP-1066), listeners that do not go with those of its file (KIP-226), and keys, certificates and log-ins that a
listener cannot use. It refuses that before the controller hears of it, and what another broker in service has to judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from penstock.metadata.configs.broker_rules import LISTENERS_KEY, MAP_KEY, added_listeners, check_cordoned
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import WITH_SASL, WITH_TLS
from penstock.metadata.resources import ResourceType
from penstock.node.api.commands import audited, handed_on
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALTER_CLUSTER_CONFIGS
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import times_named
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

CORDONED: Final = "cordoned.log.dirs"
ResponseT = TypeVar("ResponseT", bound=Any)
A_STEP: Final = 50
"""Resources, or configs of one."""
LONG_TEXT: Final = 10_000
"""Characters of a list that a thread takes apart."""
Decide = Callable[[Any], Steps[None]]
"""Answers for a resource in place of the controller; KafkaError."""


class Change(Value):
    """Of a key of this broker: what is put there, nothing where something is taken away, and what it is then."""

    name: str
    given: str
    then: str | None


def is_of_one_broker(resource: Any) -> bool:
    """And not of all of them, which have an empty name together."""
    return bool(resource.resource_type == ResourceType.BROKER and resource.resource_name)


def with_own_answers(
    broker: Broker,
    context: RequestContext,
    request: Any,
    own: ResponseT,
    answer_class: Callable[..., Any],
    changes_of: Callable[[Broker, Sequence[Any]], Steps[list[Change]]],
    decide: Callable[[Any], Decide | None] = lambda _: None,
) -> Steps[ResponseT]:
    """The controller answers for what is not this broker's, and first in the answer. `own` is one without answers yet,
    and `decide` says which resources this broker has to itself.
    """
    others, ours = list[Any](), list[Any]()
    times = yield from times_named((resource.resource_type, resource.resource_name) for resource in request.resources)
    serving = frozenset(str(node_id) for node_id, other in broker.image.brokers.items() if not other.fenced)
    pace = Pace(A_STEP)
    for resource in request.resources:
        if pace.is_due():
            yield None
        deciding = decide(resource)
        if times[resource.resource_type, resource.resource_name] == 1:
            wrong = yield from _wrong_here(broker, context, resource, serving, changes_of)
        elif deciding is not None:
            wrong = KafkaError(ErrorCode.INVALID_REQUEST, "A request names each resource once")
        else:
            wrong = None  # the controller says so of all of them
        if deciding is not None and wrong is None:
            wrong = yield from _refusal(deciding, resource)
        if deciding is None and wrong is None:
            others.append(resource)
            continue
        answer = answer_class(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        if wrong is not None:
            answer.error_code, answer.error_message = wrong.code, wrong.message
        ours.append(resource)
        own.responses.append(answer)
    response: ResponseT = type(own)()
    if others:
        response = yield handed_on(broker, context, request.replace(resources=others), type(own))
    yield audited(broker, context, request.replace(resources=ours), own)
    response.responses += own.responses
    return response


def apart(work: Callable[[str], Any], text: str) -> Steps[Any]:
    """What comes of a text; of a long one in a thread."""
    return (yield partial(work, text)) if len(text) > LONG_TEXT else work(text)


def _refusal(decide: Decide, resource: Any) -> Steps[KafkaError | None]:
    try:
        yield from decide(resource)
    except KafkaError as error:
        return error
    return None


def _wrong_here(
    broker: Broker,
    context: RequestContext,
    resource: Any,
    serving: Collection[str],
    changes_of: Callable[[Broker, Sequence[Any]], Steps[list[Change]]],
) -> Steps[KafkaError | None]:
    """What speaks against a change of this broker's configs that only it can know, and tells who may change them. What
    a broker that is not `serving` can use nobody can say.
    """
    if not is_of_one_broker(resource) or not context.shows(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME):
        return None
    name = resource.resource_name
    if name != str(broker.node_id):
        return _ask_the_other(broker) if name in serving else None
    changes = yield from changes_of(broker, resource.configs)
    then, has_keys, pace = dict[str, str | None](), False, Pace(A_STEP)
    try:
        for change in changes:
            if pace.is_due():
                yield None
            if change.name == CORDONED and change.given:
                yield from apart(partial(_check_cordoned, broker.config.log_dirs), change.given)
            then[change.name] = change.then
            has_keys = has_keys or "ssl." in change.name
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_CONFIG, str(error))
    try:
        yield _check_listeners(broker, then, has_keys=has_keys)
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _ask_the_other(broker: Broker) -> KafkaError:
    message = f"this broker changes its own configs, those of {broker.node_id}, and those of all: ask the other one"
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_cordoned(log_dirs: tuple[str, ...], text: str) -> None:
    check_cordoned(tuple(items(text)), log_dirs)


async def _check_listeners(broker: Broker, then: Mapping[str, str | None], *, has_keys: bool) -> None:
    """Raises ConfigError. `has_keys`: some of these are of TLS."""

    def text(key: str) -> str | None:
        return then[key] if key in then else broker.config.text(key)

    asks_for_listeners = LISTENERS_KEY in then or MAP_KEY in then
    added = added_listeners(broker.config, text) if asks_for_listeners else ()
    _check_log_ins([one.name for one in added if one.security_protocol in WITH_SASL], text)
    with_tls = [one.name for one in added if one.security_protocol in WITH_TLS]
    if has_keys:
        with_tls += broker.config.listeners_with_tls
    await _check_keys(broker, with_tls, then)


def _check_log_ins(listeners: list[str], text: Callable[[str], str | None]) -> None:
    """ConfigError where nobody could log in on a listener that is added."""
    if listeners:
        from penstock.metadata.configs.sasl import sasl_of

        for listener in listeners:
            sasl_of(listener, text)


async def _check_keys(broker: Broker, listeners: list[str], then: Mapping[str, str | None]) -> None:
    """ConfigError where a listener with TLS could not use its keys; `then` is what settings change to."""
    if listeners:
        from penstock.node.api.configs.changed_keys import check_keys

        layers = broker.config.layers
        await asyncio.get_running_loop().run_in_executor(None, check_keys, layers, listeners, then)


def items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]
