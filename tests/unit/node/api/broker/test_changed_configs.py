"""Who learns what a broker alone knows of its configs, when somebody changes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.api.broker import incremental_alter_configs as changing
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.serving.audit import Audit
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import Slices
from penstock.protocol.messages import incremental_alter_configs as of
from penstock.protocol.requests.api import ApiKey

REFUSED = 31


@pytest.mark.parametrize(
    ("user", "watches", "looks"), [("eve", False, False), ("eve", True, True), ("root", False, True)]
)
async def test_files_are_looked_at_for_who_may_change_configs(
    monkeypatch: pytest.MonkeyPatch, user: str, watches: bool, looks: bool
) -> None:
    looked: list[object] = []

    async def check_keys(*asked: object) -> None:
        looked.append(asked)

    async def controllers_answer(_: Any, __: Any, request: Any, ___: Any) -> Any:
        return of.IncrementalAlterConfigsResponse(
            responses=[of.AlterConfigsResourceResponse(error_code=REFUSED) for _ in request.resources]
        )

    monkeypatch.setattr(changing, "_check_keys", check_keys)
    monkeypatch.setattr(changing, "handed_on", controllers_answer)
    rules = AccessRules(["User:root"])
    authorizer = StandardAuthorizer(
        ClusterImage(), rules, Audit(rules, lambda: 0.0, lambda *_: None, watches=watches), (), lambda: True
    )
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", user))
    context = RequestContext(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, 1, "c", session, authorizer)
    broker = SimpleNamespace(node_id=1, config=BrokerConfig.embedded(), slices=Slices())
    change = of.AlterableConfig(name="ssl.keystore.location", config_operation=0, value="/etc/shadow")
    request = of.IncrementalAlterConfigsRequest(
        resources=[of.AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configs=[change])]
    )
    answer = await changing.incremental_alter_configs(cast("Any", broker), context, request)
    assert [it.error_code for it in answer.responses] == [REFUSED]
    assert bool(looked) is looks
