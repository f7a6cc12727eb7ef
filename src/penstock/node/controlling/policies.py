"""The operator's policies at work: asked in a thread of their own, before the controller decides on what they judge.

| what happens                          | what becomes of it                                                          |
| ------------------------------------- | --------------------------------------------------------------------------- |
| a command that a policy judges comes  | it is decided; what the policies were not asked yet is asked, and then it is |
|                                       | decided again, by what they said and by all that was decided meanwhile       |
| a policy takes long                   | its commands wait in line, no others, and have their turn question by        |
|                                       | question; each is refused at its own deadline, and asks nothing more then    |
| a policy raises a KafkaError          | that topic or resource is refused with its code: POLICY_VIOLATION as a rule  |
| it raises anything else               | that topic or resource gets UNKNOWN_SERVER_ERROR, the log says where         |
| the node stops                        | policies are closed, or left behind after `CLOSING_S`                        |
"""

import asyncio
import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final, Protocol

from penstock.client.daemon_thread import DaemonThread
from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, Kind, Question, Verdicts
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.controlling.driver import MAX_QUEUED_COMMANDS, ControllerDriver
from penstock.node.controlling.policy_file import AlterConfigRules, CreateTopicRules, read_rules
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import AnyApiKey, ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

JUDGED: Final[frozenset[AnyApiKey]] = frozenset(
    {ApiKey.CREATE_TOPICS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
)
CREATE_KEY: Final = "create.topic.policy.class.name"
ALTER_KEY: Final = "alter.config.policy.class.name"
FILE_KEY: Final = "penstock.policy.file"
ENTRY_POINTS: Final = "penstock.policies"
CLOSING_S: Final = 5.0

logger = logging.getLogger(__name__)


class Policy(Protocol):
    def configure(self, configs: Mapping[str, str], /) -> None: ...

    def validate(self, request: Any, /) -> None: ...

    def close(self) -> None: ...


class Judge(Value):
    """`name` is the key and what it is set to, for people."""

    name: str
    kind: Kind
    policy: Policy


def load_judges(config: BrokerConfig) -> list[Judge]:
    """Those that a controller's configuration names, the file's first. Raises KafkaError INVALID_CONFIG."""
    judges: list[Judge] = []
    path = (config.penstock_policy_file or "").strip()
    if path:
        rules, name = read_rules(FILE_KEY, path), f"{FILE_KEY}={path}"
        judges.append(Judge(name, CreateTopicPolicy.RequestMetadata, CreateTopicRules(rules)))
        judges.append(Judge(name, AlterConfigPolicy.RequestMetadata, AlterConfigRules(rules)))
    named = (
        (CREATE_KEY, config.create_topic_policy_class_name, CreateTopicPolicy.RequestMetadata),
        (ALTER_KEY, config.alter_config_policy_class_name, AlterConfigPolicy.RequestMetadata),
    )
    for key, text, kind in named:
        if text is not None and text.strip():
            judges.append(Judge(f"{key}={text.strip()}", kind, _made(key, text.strip())))
    for judge in judges:
        _tried(judge.name, "cannot be configured", partial(judge.policy.configure, MappingProxyType(config.static)))
    return judges


def _made(key: str, name: str) -> Policy:
    if ":" in name:
        found = _tried(f"{key}={name}", "cannot be loaded", partial(resolve_name, name))
    else:
        points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if name not in points:
            near = difflib.get_close_matches(name, points, n=1)
            hint = f"did you mean {near[0]}?" if near else "a class of Python is named as module:Class"
            message = f"{key}={name}: no installed package offers that policy ({ENTRY_POINTS}); {hint}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        found = _tried(f"{key}={name}", "cannot be loaded", points[name].load)
    if not isinstance(found, type):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key}={name}: that is not a class")
    made: Policy = _tried(f"{key}={name}", "cannot be made", found)
    missing = [method for method in ("configure", "validate", "close") if not callable(getattr(made, method, None))]
    if missing:
        base = CreateTopicPolicy if key == CREATE_KEY else AlterConfigPolicy
        hint = f"a subclass of {base.__module__}.{base.__name__} has all"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key}={name}: the class has no {', '.join(missing)}; {hint}")
    return made


def _tried(name: str, what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: the policy {what}: {error!r}") from error


class PolicedCommands:
    """The way for commands to the controller of this node, past its policies."""

    def __init__(self, controller: ControllerDriver, judges: Sequence[Judge]) -> None:
        self._controller = controller
        self._judges = judges
        self._kinds = frozenset(judge.kind for judge in judges)
        self._thread = DaemonThread("penstock-policies")
        self._waiting = 0
        self._called: str | None = None

    @property
    def is_active(self) -> bool:
        return self._controller.is_active

    def submit(
        self, command: Message, deadline_s: float, asker: str = "", unheard: Callable[[Any], None] | None = None
    ) -> asyncio.Future[Any]:
        """As `ControllerDriver.submit`."""
        if api_of_request(command).key not in JUDGED:
            return self._controller.submit(command, deadline_s, asker=asker, unheard=unheard)
        return asyncio.get_running_loop().create_task(self._judged(command, deadline_s, unheard))

    async def close(self) -> None:
        """No command comes any more."""
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close_all)
        self._thread.shutdown()
        try:
            async with asyncio.timeout(CLOSING_S):
                await closing
        except TimeoutError:
            logger.warning("%s has not returned for %s s: it is left behind, not closed", self._called, CLOSING_S)

    async def _judged(self, command: Message, deadline_s: float, unheard: Callable[[Any], None] | None) -> Any:
        if self._waiting >= MAX_QUEUED_COMMANDS:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{self._waiting} commands wait for policies already")
        verdicts = Verdicts(self._kinds)
        self._waiting += 1
        try:
            while True:
                reply = await self._controller.submit(command, deadline_s, verdicts, unheard=unheard)
                if not verdicts.open:
                    return reply
                verdicts.answer(await self._asked(tuple(verdicts.open), deadline_s))
        finally:
            self._waiting -= 1

    async def _asked(self, questions: Sequence[Question], deadline_s: float) -> list[KafkaError | None]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline_s):
                return [await loop.run_in_executor(self._thread, self._ask, question) for question in questions]
        except TimeoutError:
            message = f"{self._called or 'a policy'} has not answered in time; it is asked one thing after the other"
            logger.warning("%s", message)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _ask(self, question: Question) -> KafkaError | None:
        for judge in self._judges:
            if judge.kind is type(question):
                error = self._call(judge, partial(judge.policy.validate, question))
                if error is not None:
                    return error
        return None

    def _close_all(self) -> None:
        for judge in self._judges:
            self._call(judge, judge.policy.close)

    def _call(self, judge: Judge, method: Callable[[], None]) -> KafkaError | None:
        self._called = judge.name
        try:
            method()
        except KafkaError as error:
            return error
        except BaseException:
            logger.exception("%s failed", judge.name)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{judge.name} failed: the controller's log says where")
        finally:
            self._called = None
        return None
