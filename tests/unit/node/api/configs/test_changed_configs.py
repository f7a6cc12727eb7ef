"""Who learns what a broker alone knows of its configs, when somebody changes them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.node.api.in_slices import answer_of

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.api.configs import alter_configs, incremental_alter_configs, own
from penstock.node.api.configs.own import A_STEP
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.serving.audit import Audit
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import Slices, at_once
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs as of_older
from penstock.protocol.messages import incremental_alter_configs as of_newer
from penstock.protocol.requests.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

REFUSED = 31
NEWER = (
    incremental_alter_configs.incremental_alter_configs,
    of_newer.IncrementalAlterConfigsRequest,
    of_newer.AlterConfigsResource,
    lambda name, value: of_newer.AlterableConfig(name=name, config_operation=0, value=value),
)
OLDER = (
    alter_configs.alter_configs,
    of_older.AlterConfigsRequest,
    of_older.AlterConfigsResource,
    lambda name, value: of_older.AlterableConfig(name=name, value=value),
)
ALTERED = RequestContext(
    ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 1, "c", Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "root"))
)
both = pytest.mark.parametrize("api", [NEWER, OLDER], ids=["newer", "older"])


def broker_of(static: Mapping[str, str] | None = None, dynamic: Mapping[str, str] | None = None) -> Any:
    config = BrokerConfig.embedded(static)
    config.apply_dynamic(broker=dynamic or {}, default={})
    image = SimpleNamespace(brokers={2: SimpleNamespace(fenced=False), 3: SimpleNamespace(fenced=True)})
    return SimpleNamespace(node_id=1, config=config, slices=Slices(), image=image)


async def answered(
    monkeypatch: pytest.MonkeyPatch,
    api: Any,
    changes: Mapping[str, str],
    *,
    user: str = "root",
    watches: bool = False,
    static: Mapping[str, str] | None = None,
    dynamic: Mapping[str, str] | None = None,
    name: str = "1",
    times: int = 1,
) -> tuple[int, str | None]:
    """The error of a broker's own configs; REFUSED is the controller's."""

    async def controllers_answer(_: Any, __: Any, request: Any, response: Any) -> Any:
        assert len(request.resources) == times
        answer = of_newer if response is of_newer.IncrementalAlterConfigsResponse else of_older
        return response(responses=[answer.AlterConfigsResourceResponse(error_code=REFUSED, error_message=None)])

    for module in (own, alter_configs, incremental_alter_configs):
        monkeypatch.setattr(module, "handed_on", controllers_answer)
    function, request, resource, change = api
    rules = AccessRules(["User:root"])
    authorizer = StandardAuthorizer(
        ClusterImage(), rules, Audit(rules, lambda: 0.0, lambda *_: None, watches=watches), (), lambda: True
    )
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", user))
    context = RequestContext(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 1, "c", session, authorizer)
    broker = broker_of(static, dynamic)
    configs = [change(*row) for row in changes.items()]
    asked = [resource(resource_type=ResourceType.BROKER, resource_name=name, configs=configs)] * times
    answer = await answer_of(function(broker, context, request(resources=asked)))
    (only,) = answer.responses
    return only.error_code, only.error_message


@both
@pytest.mark.parametrize(
    ("user", "watches", "looks"), [("eve", False, False), ("eve", True, True), ("root", False, True)]
)
async def test_files_are_looked_at_for_who_may_change_configs(
    monkeypatch: pytest.MonkeyPatch, api: Any, user: str, watches: bool, looks: bool
) -> None:
    looked: list[object] = []

    async def check_keys(*asked: object) -> None:
        looked.append(asked)

    monkeypatch.setattr(own, "_check_keys", check_keys)
    change = {"ssl.keystore.location": "/etc/shadow"}
    assert (await answered(monkeypatch, api, change, user=user, watches=watches))[0] == REFUSED
    assert bool(looked) is looks


PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,SAFE:SASL_SSL,CERTIFIED:SSL"
OWN = "PLAINTEXT://127.0.0.1:9092"
CERTIFIED = {"listeners": "CERTIFIED://127.0.0.1:9092", "listener.security.protocol.map": PROTOCOLS}


@both
@pytest.mark.parametrize(
    ("changes", "static", "code", "reason"),
    [
        ({"cordoned.log.dirs": "/nowhere"}, {}, ErrorCode.INVALID_CONFIG, "/nowhere"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1"}, {}, ErrorCode.INVALID_REQUEST, "only with a restart"),
        (
            {"listeners": f"{OWN},SAFE://127.0.0.1:1", "listener.security.protocol.map": PROTOCOLS},
            {},
            ErrorCode.INVALID_REQUEST,
            "what can be served on SAFE",
        ),
        (
            {"listeners": f"{OWN},CERTIFIED://127.0.0.1:1", "listener.security.protocol.map": PROTOCOLS},
            {},
            ErrorCode.INVALID_REQUEST,
            "what the listener CERTIFIED can use",
        ),
        ({"ssl.keystore.location": "/nowhere"}, CERTIFIED, ErrorCode.INVALID_REQUEST, "No such file"),
        ({"log.cleaner.threads": "2"}, CERTIFIED, REFUSED, None),
    ],
)
async def test_what_only_the_broker_knows_is_refused_whichever_api_asks(
    monkeypatch: pytest.MonkeyPatch,
    api: Any,
    changes: Mapping[str, str],
    static: Mapping[str, str],
    code: int,
    reason: str | None,
) -> None:
    found, message = await answered(monkeypatch, api, changes, static=static)
    assert found == code
    assert message is None if reason is None else reason in (message or "")


@pytest.mark.parametrize(("api", "code"), [(NEWER, REFUSED), (OLDER, ErrorCode.INVALID_REQUEST)])
async def test_what_a_replacement_takes_away_without_naming_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, api: Any, code: int
) -> None:
    """The key of a listener with TLS, which has no other."""
    set_before = {"listener.name.certified.ssl.keystore.location": "/etc/penstock/broker.pem"}
    change = {"log.cleaner.threads": "2"}
    found, message = await answered(monkeypatch, api, change, static=CERTIFIED, dynamic=set_before)
    assert found == code
    assert message is None or "ssl.keystore.location is missing" in message


@both
@pytest.mark.parametrize(
    ("name", "code"), [("2", ErrorCode.INVALID_REQUEST), ("3", REFUSED), ("4", REFUSED), ("02", REFUSED)]
)
async def test_what_another_broker_in_service_has_to_look_at_is_not_changed_here(
    monkeypatch: pytest.MonkeyPatch, api: Any, name: str, code: int
) -> None:
    """3 is down: nobody can look. Of those that are none the controller says so."""
    found, message = await answered(monkeypatch, api, {"ssl.keystore.location": "/nowhere"}, name=name)
    assert found == code
    assert message is None or message.endswith("those of 1, and those of all: ask the other one")


@both
async def test_a_broker_that_is_named_twice_is_refused_by_who_refuses_that(
    monkeypatch: pytest.MonkeyPatch, api: Any
) -> None:
    """If the one that is wrong were taken out, the other one would be carried out."""
    code, _ = await answered(monkeypatch, api, {"cordoned.log.dirs": "/nowhere"}, times=2)
    assert code == REFUSED


@pytest.mark.parametrize(
    ("key", "operation", "code"),
    [("cordoned.log.dirs", 0, ErrorCode.INVALID_CONFIG), ("log.cleaner.threads", 2, REFUSED)],
)
async def test_a_thread_takes_a_long_list_apart(
    monkeypatch: pytest.MonkeyPatch, key: str, operation: int, code: int
) -> None:
    threads: list[int] = []
    items = own.items

    def noted(text: str) -> list[str]:
        threads.append(threading.get_ident())
        return items(text)

    for module in (own, incremental_alter_configs):
        monkeypatch.setattr(module, "items", noted)
    change = of_newer.AlterableConfig(name=key, config_operation=operation, value="/nowhere," * own.LONG_TEXT)
    api = (*NEWER[:3], lambda *_: change)
    assert (await answered(monkeypatch, api, {key: ""}))[0] == code
    assert threads
    assert threading.get_ident() not in threads


def steps_before_the_first_wait(steps: Any) -> int:
    count = 0
    for step in steps:
        if step is not None:
            step.close()
            break
        count += 1
    return count


@both
def test_very_many_resources_are_looked_at_in_steps(api: Any) -> None:
    function, request, resource, _ = api
    asked = [resource(resource_type=ResourceType.BROKER, resource_name=f"{number}") for number in range(2, 5 * A_STEP)]
    assert steps_before_the_first_wait(function(broker_of(), ALTERED, request(resources=asked))) == 4


@both
def test_very_many_configs_of_this_broker_are_looked_at_in_steps(api: Any) -> None:
    function, request, resource, change = api
    configs = [change(f"key-{number}", "v") for number in range(5 * A_STEP - 1)]
    asked = [resource(resource_type=ResourceType.BROKER, resource_name="1", configs=configs)]
    steps = steps_before_the_first_wait(function(broker_of(), ALTERED, request(resources=asked)))
    assert steps == 2 * 4, "at what they say, and at what they may not"


def test_a_long_value_counts_as_several_configs() -> None:
    api: Any = NEWER
    function, request, resource, change = api
    configs = [change(f"key-{number}", "v" * A_STEP * incremental_alter_configs.AS_ONE) for number in range(3)]
    asked = [resource(resource_type=ResourceType.BROKER, resource_name="1", configs=configs)]
    assert steps_before_the_first_wait(function(broker_of(), ALTERED, request(resources=asked))) == 3


class Item(str):
    """It counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Item.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize(("operation", "then"), [(2, [*range(100), *range(100, 150)]), (3, [*range(50)])])
def test_long_lists_are_joined_by_one_look_at_each_item(
    monkeypatch: pytest.MonkeyPatch, operation: int, then: list[int]
) -> None:
    def items(text: str) -> list[str]:
        return list(map(Item, text.split(",")))

    monkeypatch.setattr(incremental_alter_configs, "items", items)
    monkeypatch.setattr(Item, "compared", 0)
    present, given = (",".join(map(str, some)) for some in (range(100), range(50, 150)))
    broker = broker_of(dynamic={"listener.name.safe.ssl.cipher.suites": present})
    change = of_newer.AlterableConfig(
        name="listener.name.safe.ssl.cipher.suites", config_operation=operation, value=given
    )
    assert at_once(incremental_alter_configs._text_then(broker, change)) == ",".join(map(str, then))
    assert Item.compared <= 100
