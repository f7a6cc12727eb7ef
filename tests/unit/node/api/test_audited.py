"""Changes of configs, users, quotas and access rules are in the audit log, and no secret is."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.metadata.resources import ResourceType
from penstock.node.api.audited import CHANGES, audited
from penstock.node.api.commands import AUDITED, decided
from penstock.node.serving.access import audit_log
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import Slices
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    expire_delegation_token,
    incremental_alter_configs,
    renew_delegation_token,
)
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

ROOT = Session("10.0.0.9", 1, "PLAINTEXT", 1, Principal("User", "root"))
RULE = AclBinding(Resource.TOPIC, "flights", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)
RULE_TEXT = (
    "StandardAcl[resourceType=TOPIC, resourceName=flights, patternType=LITERAL, principal=User:ada, host=*,"
    " operation=READ, permissionType=ALLOW]"
)
TOPIC, BROKER = int(ResourceType.TOPIC), int(ResourceType.BROKER)


def creation(rule: AclBinding) -> create_acls.AclCreation:
    fields = rule._asdict()
    return create_acls.AclCreation(resource_pattern_type=fields.pop("pattern_type"), **fields)


def told(caplog: pytest.LogCaptureFixture, request: Message, reply: Message, *, as_json: bool = False) -> list[str]:
    caplog.clear()
    context = RequestContext(api_of_request(request).key, 0, 1, "test", ROOT)
    steps = audited(context, request, reply, as_json=as_json)
    assert Slices().answer(steps) is reply
    return [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]


def changes(caplog: pytest.LogCaptureFixture, request: Message, reply: Message) -> list[str]:
    lines = told(caplog, request, reply)
    begin = f"Principal = User:root changed from host = 10.0.0.9 for request = {api_of_request(request).name}: "
    assert all(line.startswith(begin) for line in lines)
    return [line.removeprefix(begin) for line in lines]


def test_each_audited_api_says_what_it_changed() -> None:
    assert CHANGES.keys() == AUDITED


def test_rules(caplog: pytest.LogCaptureFixture) -> None:
    asked = create_acls.CreateAclsRequest(creations=[creation(RULE._replace(host="x/8")), creation(RULE)])
    results = [create_acls.AclCreationResult(error_code=42), create_acls.AclCreationResult()]
    reply = create_acls.CreateAclsResponse(results=results)
    assert changes(caplog, asked, reply) == [f"made {RULE_TEXT}"]
    gone = [delete_acls.DeleteAclsMatchingAcl(**RULE._asdict())]
    removed = delete_acls.DeleteAclsResponse(filter_results=[delete_acls.DeleteAclsFilterResult(matching_acls=gone)])
    assert changes(caplog, delete_acls.DeleteAclsRequest(), removed) == [f"removed {RULE_TEXT}"]


def test_users_without_what_helps_to_guess_a_password(caplog: pytest.LogCaptureFixture) -> None:
    of = alter_user_scram_credentials
    asked = of.AlterUserScramCredentialsRequest(
        deletions=[of.ScramCredentialDeletion(name="bob", mechanism=1)],
        upsertions=[
            of.ScramCredentialUpsertion(name=name, mechanism=2, salt=b"SALT", salted_password=b"SALTED")
            for name in ("ada", "eve")
        ],
    )
    results = [
        of.AlterUserScramCredentialsResult(user=user, error_code=user == "eve") for user in ("bob", "ada", "eve")
    ]
    reply = of.AlterUserScramCredentialsResponse(results=results)
    assert changes(caplog, asked, reply) == ["removed SCRAM-SHA-256 of user bob", "set SCRAM-SHA-512 of user ada"]


def incremental(validate_only: bool = False) -> tuple[Message, Message]:
    of = incremental_alter_configs

    def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> Any:
        made = [of.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in configs]
        return of.AlterConfigsResource(resource_type=kind, resource_name=name, configs=made)

    resources = [
        resource(
            TOPIC, "flights", ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact"), ("unknown", 0, "S3CRET")
        ),
        resource(BROKER, "", ("ssl.keystore.password", 0, "S3CRET"), ("message.max.bytes", 1, None)),
        resource(BROKER, "1", ("listener.name.x.plain.sasl.jaas.config", 0, "S3CRET")),
        resource(TOPIC, "refused", ("retention.ms", 0, "5")),
        resource(8, "1", ("kafka.authorizer.logger", 0, "DEBUG")),
    ]
    answers = [
        of.AlterConfigsResourceResponse(
            resource_type=it.resource_type, resource_name=it.resource_name, error_code=it.resource_name == "refused"
        )
        for it in resources
    ]
    asked = of.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    return asked, of.IncrementalAlterConfigsResponse(responses=answers)


def test_who_turns_the_audit_log_off_is_told(caplog: pytest.LogCaptureFixture) -> None:
    before = audit_log.level
    audit_log.setLevel("CRITICAL")
    try:
        assert "set kafka.authorizer.logger=DEBUG of BROKER_LOGGER 1" in changes(caplog, *incremental())
    finally:
        audit_log.setLevel(before)


def test_configs_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    assert changes(caplog, *incremental()) == [
        "set retention.ms=5 of TOPIC flights",
        "appended to cleanup.policy=compact of TOPIC flights",
        "set unknown=[hidden] of TOPIC flights",
        "set ssl.keystore.password=[hidden] of BROKER (all)",
        "removed message.max.bytes of BROKER (all)",
        "set listener.name.x.plain.sasl.jaas.config=[hidden] of BROKER 1",
        "set kafka.authorizer.logger=DEBUG of BROKER_LOGGER 1",
    ]
    assert changes(caplog, *incremental(validate_only=True)) == []
    of = alter_configs
    config = of.AlterableConfig(name="retention.ms", value="7")
    asked = of.AlterConfigsRequest(
        resources=[
            of.AlterConfigsResource(resource_type=TOPIC, resource_name="flights", configs=[config]),
            of.AlterConfigsResource(resource_type=TOPIC, resource_name="gates"),
        ]
    )
    reply = of.AlterConfigsResponse(
        responses=[
            of.AlterConfigsResourceResponse(resource_type=TOPIC, resource_name=name) for name in ("flights", "gates")
        ]
    )
    assert changes(caplog, asked, reply) == [
        "set all configs of TOPIC flights",
        "set retention.ms=7 of TOPIC flights",
        "set all configs of TOPIC gates",
    ]


def test_quotas(caplog: pytest.LogCaptureFixture) -> None:
    of = alter_client_quotas
    entity = [of.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in WHO]
    ops = [of.OpData(key="producer_byte_rate", value=10485761.0), of.OpData(key="request_percentage", remove=True)]
    entry = of.AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
    reply = of.AlterClientQuotasResponse(
        entries=[of.AlterClientQuotasResponseEntryData(), of.AlterClientQuotasResponseEntryData(error_code=42)]
    )
    assert changes(caplog, of.AlterClientQuotasRequest(entries=[entry, entry]), reply) == [
        "set producer_byte_rate=10485761 of user ada, client-id (default)",
        "removed request_percentage of user ada, client-id (default)",
    ]


def test_tokens_without_what_logs_in_with_them(caplog: pytest.LogCaptureFixture) -> None:
    renewer = create_delegation_token.CreatableRenewers(principal_type="User", principal_name="bob")
    (made,) = changes(
        caplog,
        create_delegation_token.CreateDelegationTokenRequest(renewers=[renewer]),
        create_delegation_token.CreateDelegationTokenResponse(
            principal_type="User",
            principal_name="ada",
            expiry_timestamp_ms=7,
            max_timestamp_ms=9,
            token_id="T1",
            hmac=b"S3CRET",
        ),
    )
    (renewed,) = changes(
        caplog,
        renew_delegation_token.RenewDelegationTokenRequest(hmac=b"S3CRET"),
        renew_delegation_token.RenewDelegationTokenResponse(expiry_timestamp_ms=8),
    )
    (ended,) = changes(
        caplog,
        expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"S3CRET"),
        expire_delegation_token.ExpireDelegationTokenResponse(expiry_timestamp_ms=5),
    )
    mark = renewed.split()[9]
    assert made == (
        f"made delegation token T1 (mark {mark}) of User:ada until 7, at most 9; it may be renewed by User:bob"
    )
    assert [renewed, ended] == [f"set the end of the delegation token with mark {mark} to {end}" for end in (8, 5)]
    assert not any(text in made for text in ("S3CRET", b"S3CRET".hex(), b64encode(b"S3CRET").decode()))
    refused = expire_delegation_token.ExpireDelegationTokenResponse(error_code=62)
    assert changes(caplog, expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"S3CRET"), refused) == []


WHO = (("user", "ada"), ("client-id", None))


def test_json(caplog: pytest.LogCaptureFixture) -> None:
    lines = told(caplog, *incremental(), as_json=True)
    assert json.loads(lines[0]) == {
        "event": "change",
        "principal": "User:root",
        "host": "10.0.0.9",
        "request": "IncrementalAlterConfigs",
        "change": "set retention.ms=5 of TOPIC flights",
    }
    assert "S3CRET" not in "".join(lines)


OF_ONE_TOKEN = {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}


@pytest.mark.parametrize("key", sorted(AUDITED - OF_ONE_TOKEN))
def test_an_empty_request_changes_nothing(caplog: pytest.LogCaptureFixture, key: int) -> None:
    api = api_of(key)
    assert told(caplog, api.request_class(), api.response_class()) == []


async def test_what_is_made_when_its_client_has_gone_is_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """However many lines it takes."""
    asked = create_acls.CreateAclsRequest(creations=[creation(RULE)] * 300)
    reply = create_acls.CreateAclsResponse(results=[create_acls.AclCreationResult()] * 300)
    left: list[Any] = []

    class Late:
        def submit(self, command: Message, deadline_s: float, **options: Any) -> asyncio.Future[Any]:
            left.append(options["unheard"])
            waiting = asyncio.get_running_loop().create_future()
            waiting.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
            return waiting

    config = SimpleNamespace(penstock_authorizer_audit_format="kafka")
    node: Any = SimpleNamespace(
        config=config, controller=Late(), slices=Slices(), throttling=SimpleNamespace(active=None)
    )
    with pytest.raises(KafkaError):
        await decided(node, RequestContext(ApiKey.CREATE_ACLS, 0, 1, "test", ROOT), asked, 0)
    assert not caplog.records
    left[0](reply)
    while node.slices._unawaited:
        await asyncio.sleep(0)
    assert [record.getMessage().endswith(f"made {RULE_TEXT}") for record in caplog.records] == [True] * 300
