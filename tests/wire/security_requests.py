"""Requests about log-ins, users, access rules and quotas, to a node without any; it refuses most of them."""

from collections.abc import Callable
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

TOPIC, ANY, READ, ALLOW = 2, 1, 3, 3

_REQUESTS: dict[ApiKey, Message] = {
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b"\0ada\0hush"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(name="ada", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32))
        ]
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match="ada")], strict=True
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[AlterClientQuotasRequestEntityData(entity_type="user", entity_name="ada")],
                ops=[OpData(key="producer_byte_rate", value=1e9)],
            )
        ],
        validate_only=True,
    ),
    ApiKey.DESCRIBE_ACLS: DescribeAclsRequest(
        resource_type_filter=TOPIC, resource_name_filter="t", operation=ANY, permission_type=ANY
    ),
    ApiKey.CREATE_ACLS: CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=TOPIC,
                resource_name="t",
                principal="User:ada",
                host="*",
                operation=READ,
                permission_type=ALLOW,
            )
        ]
    ),
    ApiKey.DELETE_ACLS: DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(resource_type_filter=TOPIC, resource_name_filter="t", operation=ANY, permission_type=ANY)
        ]
    ),
}


def _always(request: Message) -> Callable[[Any], Message]:
    return lambda _: request


REQUESTS = {key: _always(request) for key, request in _REQUESTS.items()}
REFUSED = {
    **dict.fromkeys((ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS), ErrorCode.SECURITY_DISABLED),
    **dict.fromkeys((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), ErrorCode.ILLEGAL_SASL_STATE),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ErrorCode.RESOURCE_NOT_FOUND,
}
