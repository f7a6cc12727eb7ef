"""Users, rights and quotas in the tree of `penstock metadata-shell`, as Kafka's shell shows them but for secrets.

| path                               | content                                          |
| ---------------------------------- | ------------------------------------------------ |
| `/image/acls/ID`                   | an access rule                                   |
| `/image/clientQuotas/WHOM/KEY`     | a client quota                                   |
| `/image/delegationToken/ID`        | a delegation token                               |
| `/image/scram/MECHANISM/USER`      | a credential: what would help to guess a password is left out |
"""

from typing import Final

from penstock.cli.metadata_shell.node import Node
from penstock.metadata.security import QuotaEntity, SecurityImage
from penstock.metadata.security_records import AccessControlEntryRecord, DelegationTokenRecord
from penstock.protocol.uuids import uuid_to_text

SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RESOURCE_TYPES: Final = {
    1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip
PATTERN_TYPES: Final = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
OPERATIONS: Final = {
    1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
    9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
}  # fmt: skip
PERMISSIONS: Final = {1: "ANY", 2: "DENY", 3: "ALLOW"}
QUOTA_NAMES: Final = {"client-id": "clientId"}


def put_security(node: Node, security: SecurityImage) -> None:
    for path in ("acls", "clientQuotas", "delegationToken", *(f"scram/{name}" for name in SCRAM_MECHANISMS.values())):
        node.put(path)
    for rule in security.access_rules.values():
        node.child("acls").child(uuid_to_text(rule.id)).content = _rule(rule)
    for (entity, key), quota in security.client_quotas.items():
        node.child("clientQuotas").child(_whom(entity)).child(key).content = str(quota.value)
    for token in security.delegation_tokens.values():
        node.child("delegationToken").child(token.token_id).content = _token(token)
    for (mechanism, user), credential in security.scram_credentials.items():
        text = (
            "ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], "
            f"iterations={credential.iterations})"
        )
        node.child("scram").child(SCRAM_MECHANISMS.get(mechanism, str(mechanism))).child(user).content = text


def _rule(rule: AccessControlEntryRecord) -> str:
    return (
        f"StandardAcl(resourceType={_name(RESOURCE_TYPES, rule.resource_type)}, resourceName={rule.resource_name}, "
        f"patternType={_name(PATTERN_TYPES, rule.pattern_type)}, principal={rule.principal}, host={rule.host}, "
        f"operation={_name(OPERATIONS, rule.operation)}, permissionType={_name(PERMISSIONS, rule.permission_type)})"
    )


def _token(token: DelegationTokenRecord) -> str:
    return (
        f"DelegationTokenData(owner={token.owner}, tokenRequester={token.requester}, "
        f"renewers={' '.join(token.renewers)}, issueTimestamp={token.issue_timestamp}, "
        f"maxTimestamp={token.max_timestamp}, expiryTimestamp={token.expiration_timestamp})"
    )


def _whom(entity: QuotaEntity) -> str:
    """As Kafka names the node: `clientId(x)_user(ada)`; the default has no name."""
    return "_".join(f"{QUOTA_NAMES.get(kind, kind)}({_escaped(name or '')})" for kind, name in entity)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _name(names: dict[int, str], code: int) -> str:
    return names.get(code, f"UNKNOWN({code})")
