"""What a broker judges of its own configs, each condition alone, and how its answers go with the controller's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.resources import ResourceType
from penstock.node.api.configs import own
from penstock.node.api.configs.own import Change, with_own_answers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

NODE_ID = 1
SERVING = frozenset(["1", "2"])


def steps(generator: Any) -> tuple[list[Any], Any]:
    """What it yields, where nothing comes of that, and what it returns."""
    yielded: list[Any] = []
    while True:
        try:
            yielded.append(next(generator))
        except StopIteration as stop:
            return yielded, stop.value


@pytest.mark.parametrize(
    ("kind", "name", "shows", "wrong"),
    [
        (ResourceType.BROKER, "1", True, "looked at"),
        (ResourceType.BROKER, "2", True, "ask the other one"),
        (ResourceType.BROKER, "3", True, None),
        (ResourceType.BROKER, "", True, None),
        (ResourceType.TOPIC, "1", True, None),
        (ResourceType.BROKER, "1", False, None),
        (ResourceType.BROKER, "2", False, None),
    ],
)
def test_whose_configs_are_judged_here(kind: int, name: str, shows: bool, wrong: str | None) -> None:
    def changes_of(broker: object, configs: object) -> Any:
        looked.append(configs)
        return []
        yield

    looked: list[Any] = []
    broker: Any = SimpleNamespace(node_id=NODE_ID, config=SimpleNamespace(log_dirs=("/a",), text=lambda key: None))
    context: Any = SimpleNamespace(shows=lambda right, name: shows)
    resource = SimpleNamespace(resource_type=kind, resource_name=name, configs="configs")
    yielded, found = steps(own._wrong_here(broker, context, resource, SERVING, changes_of))
    for one in yielded:
        one.close()
    assert looked == (["configs"] if wrong == "looked at" else [])
    if wrong == "ask the other one":
        assert (found.code, wrong in found.message) == (ErrorCode.INVALID_REQUEST, True)
    else:
        assert found is None


@pytest.mark.parametrize(
    ("changes", "checked", "code"),
    [
        ([Change("a", "b", "c")], [({"a": "c"}, False)], None),
        ([Change("ssl.keystore.location", "b", "c")], [({"ssl.keystore.location": "c"}, True)], None),
        ([Change("listener.name.a.ssl.x", "", None), Change("b", "", "d")], [(None, True)], None),
        ([Change("cordoned.log.dirs", "/a, /b", "/a")], [({"cordoned.log.dirs": "/a"}, False)], None),
        ([Change("cordoned.log.dirs", "/c", "/c")], [], ErrorCode.INVALID_CONFIG),
        ([Change("cordoned.log.dirs", "", "/c")], [({"cordoned.log.dirs": "/c"}, False)], None),
    ],
)
def test_what_is_looked_at_of_a_change(
    monkeypatch: pytest.MonkeyPatch, changes: list[Change], checked: list[Any], code: ErrorCode | None
) -> None:
    found: list[Any] = []
    monkeypatch.setattr(own, "_check_listeners", lambda broker, then, *, has_keys: found.append((then, has_keys)))

    def changes_of(broker: object, configs: object) -> Any:
        return changes
        yield

    broker: Any = SimpleNamespace(node_id=NODE_ID, config=SimpleNamespace(log_dirs=("/a", "/b")))
    context: Any = SimpleNamespace(shows=lambda right, name: True)
    resource = SimpleNamespace(resource_type=ResourceType.BROKER, resource_name="1", configs=())
    _, wrong = steps(own._wrong_here(broker, context, resource, SERVING, changes_of))
    assert (None if wrong is None else wrong.code) == code
    assert [has for _, has in found] == [has for _, has in checked]
    for (then, _), (wanted, _) in zip(found, checked, strict=True):
        assert then == (wanted or {"listener.name.a.ssl.x": None, "b": "d"})


def test_listeners_that_cannot_be_are_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_check_listeners", lambda *_, **__: "check")

    def changes_of(broker: object, configs: object) -> Any:
        return []
        yield

    broker: Any = SimpleNamespace(node_id=NODE_ID)
    context: Any = SimpleNamespace(shows=lambda right, name: True)
    resource = SimpleNamespace(resource_type=ResourceType.BROKER, resource_name="1", configs=())
    judging = own._wrong_here(broker, context, resource, SERVING, changes_of)
    assert cast("Any", next(judging)) == "check"
    with pytest.raises(StopIteration) as stop:
        judging.throw(ConfigError("listeners", "x", "another"))
    assert stop.value.value.code == ErrorCode.INVALID_REQUEST


ADDED = [("A", "PLAINTEXT"), ("B", "SSL"), ("C", "SASL_PLAINTEXT"), ("D", "SASL_SSL")]


@pytest.mark.parametrize(
    ("then", "has_keys", "log_ins", "keys"),
    [
        ({}, False, [], []),
        ({}, True, [], ["OLD"]),
        ({"listeners": "x"}, False, ["C", "D"], ["B", "D"]),
        ({"listener.security.protocol.map": "x"}, False, ["C", "D"], ["B", "D"]),
        ({"listeners": "x"}, True, ["C", "D"], ["B", "D", "OLD"]),
        ({"other": "x"}, False, [], []),
    ],
)
async def test_which_listeners_need_keys_or_log_ins(
    monkeypatch: pytest.MonkeyPatch, then: dict[str, str], has_keys: bool, log_ins: list[str], keys: list[str]
) -> None:
    told: dict[str, Any] = {}
    added = [SimpleNamespace(name=name, security_protocol=protocol) for name, protocol in ADDED]

    async def check_keys(broker: object, listeners: list[str], changes: object) -> None:
        assert changes == then
        told["keys"] = listeners

    monkeypatch.setattr(own, "added_listeners", lambda config, text: added)
    monkeypatch.setattr(own, "_check_log_ins", lambda listeners, text: told.update(log_ins=listeners, text=text))
    monkeypatch.setattr(own, "_check_keys", check_keys)
    config = SimpleNamespace(listeners_with_tls=["OLD"], text=lambda key: f"{key} of the file")
    await own._check_listeners(cast("Any", SimpleNamespace(config=config)), then, has_keys=has_keys)
    assert (told["log_ins"], told["keys"]) == (log_ins, keys)
    assert told["text"]("z") == "z of the file"
    for key, value in then.items():
        assert told["text"](key) == value


@pytest.mark.parametrize(("length", "is_apart"), [(own.LONG_TEXT, False), (own.LONG_TEXT + 1, True)])
def test_a_long_text_is_taken_apart_by_a_thread(length: int, is_apart: bool) -> None:
    yielded, found = steps(own.apart(len, "x" * length))
    assert [work() for work in yielded] == [length] * is_apart
    assert found == (None if is_apart else length)


def resource(name: str, kind: int = ResourceType.BROKER) -> AlterConfigsResource:
    return AlterConfigsResource(resource_type=kind, resource_name=name)


WRONG = KafkaError(ErrorCode.INVALID_CONFIG, "wrong here")
REFUSED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "it refuses")


@pytest.mark.parametrize(
    ("names", "decided", "wrong", "handed", "answers"),
    [
        (["5", "6"], {}, {}, ["5", "6"], []),
        (["5", "6"], {}, {"6": WRONG}, ["5"], [("6", ErrorCode.INVALID_CONFIG, "wrong here")]),
        (["5", "6"], {"5": None}, {}, ["6"], [("5", 0, None)]),
        (["5"], {"5": REFUSED}, {}, [], [("5", ErrorCode.UNKNOWN_SERVER_ERROR, "it refuses")]),
        (["5"], {"5": REFUSED}, {"5": WRONG}, [], [("5", ErrorCode.INVALID_CONFIG, "wrong here")]),
        (["5", "5"], {}, {"5": WRONG}, ["5", "5"], []),
        (
            ["5", "6", "5"],
            {"5": None},
            {},
            ["6"],
            [("5", ErrorCode.INVALID_REQUEST, "A request names each resource once")] * 2,
        ),
    ],
)
def test_answers_of_the_controller_come_first(
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    decided: dict[str, KafkaError | None],
    wrong: dict[str, KafkaError],
    handed: list[str],
    answers: list[tuple[str, int, str | None]],
) -> None:
    audited, looked = list[str](), list[str]()

    def wrong_here(broker: object, context: object, one: Any, serving: Any, changes_of: object) -> Any:
        assert serving == frozenset(["2"]), "those that are fenced serve nobody"
        looked.append(one.resource_name)
        return wrong.get(one.resource_name)
        yield

    def deciding(one: Any) -> Any:
        def decide(one: Any) -> Any:
            error = decided[one.resource_name]
            if error is not None:
                raise error
            return
            yield

        return decide if one.resource_name in decided else None

    monkeypatch.setattr(own, "_wrong_here", wrong_here)
    monkeypatch.setattr(own, "handed_on", lambda broker, context, request, kind: ("handed on", request))
    monkeypatch.setattr(own, "audited", lambda broker, context, request, told: ("audited", request))
    brokers = {2: SimpleNamespace(fenced=False), 3: SimpleNamespace(fenced=True)}
    broker: Any = SimpleNamespace(image=SimpleNamespace(brokers=brokers))
    request = IncrementalAlterConfigsRequest(resources=[resource(name) for name in names])
    answering = with_own_answers(
        broker,
        cast("Any", None),
        request,
        IncrementalAlterConfigsResponse(),
        AlterConfigsResourceResponse,
        cast("Any", None),
        deciding,
    )
    controllers = IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(resource_name="first")])
    sent: Any = None
    asked: list[str] = []
    try:
        while True:
            step: Any = answering.send(sent)
            sent = None
            if isinstance(step, tuple) and step[0] == "handed on":
                asked, sent = [one.resource_name for one in step[1].resources], controllers
            elif isinstance(step, tuple):
                audited = [one.resource_name for one in step[1].resources]
    except StopIteration as stop:
        response = stop.value
    assert asked == handed
    assert audited == [name for name, *_ in answers]
    told = [(one.resource_name, one.error_code, one.error_message) for one in response.responses]
    assert told[: bool(handed)] == [("first", 0, "")] * bool(handed)
    assert told[bool(handed) :] == answers
    assert looked == [name for name in names if names.count(name) == 1]
