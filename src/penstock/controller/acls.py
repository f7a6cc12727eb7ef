"""CreateAcls and DeleteAcls (KIP-801): access rules are made and removed, each checked by itself and all at once.

Who is told that they are knows that no broker in service decides by the rules of before. That holds for a repetition as
well, which finds nothing left to do: the first answer may have been lost while a broker was behind.
"""

from typing import Final
from uuid import UUID

from penstock.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    Allowance,
    ControllerState,
    Decision,
    decided_for_brokers,
)
from penstock.metadata.acl_hosts import network_of
from penstock.metadata.features import CIDR_LEVEL, shown_level
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from penstock.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    filter_of,
    members,
)
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.protocol.requests.refusals import refusal

MAX_LOOKS: Final = 1_000_000
"""At rules, for all filters of a request together: about a second. A filter that leaves nothing open looks at none."""


def decide_create_acls(state: ControllerState, request: CreateAclsRequest, now_ms: int) -> Decision[CreateAclsResponse]:
    """A rule that is there already is made, too, and stays as it is."""
    made: dict[AclBinding, MetadataRecord] = {}
    results = []
    try:
        _check_authorizer(state)
        for creation in request.creations:
            rule, result = _rule(creation), AclCreationResult(error_message=None)
            try:
                _check(rule, state.image.metadata_version)
                if rule not in state.image.security.rule_ids and rule not in made:
                    made[rule] = AccessControlEntryRecord(id=state.new_rule_id(), **rule._asdict())
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        if len(made) > MAX_RECORDS_PER_DECISION:
            message = f"{len(made)} access rules are too many to be made at once: {MAX_RECORDS_PER_DECISION} can be"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
    except KafkaError as error:
        return Decision([], refusal(request, error))
    return decided_for_brokers(state, list(made.values()), CreateAclsResponse(results=results))


def decide_delete_acls(state: ControllerState, request: DeleteAclsRequest, now_ms: int) -> Decision[DeleteAclsResponse]:
    """Each filter is answered with all that it matches, though several may match the same; one that is said again is
    refused, as very many would have an answer without end.
    """
    gone: dict[UUID, MetadataRecord] = {}
    results, known = [], set[AclFilter]()
    allowance = Allowance(MAX_LOOKS, "have its filters held against {} rules, all together")
    try:
        _check_authorizer(state)
        for asked in request.filters:
            result = DeleteAclsFilterResult(error_message=None)
            try:
                wanted = filter_of(asked)
                if wanted in known:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has this filter twice")
                known.add(wanted)
                for rule, rule_id in _matching(state, wanted, allowance):
                    gone[rule_id] = RemoveAccessControlEntryRecord(id=rule_id)
                    result.matching_acls.append(DeleteAclsMatchingAcl(error_message=None, **rule._asdict()))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        if len(gone) > MAX_RECORDS_PER_DECISION:
            message = f"{len(gone)} access rules are too many to be removed at once: {MAX_RECORDS_PER_DECISION} can be"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    except KafkaError as error:
        return Decision([], refusal(request, error))
    return decided_for_brokers(state, list(gone.values()), DeleteAclsResponse(filter_results=results))


def _check_authorizer(state: ControllerState) -> None:
    if not state.settings.has_authorizer:
        message = "No authorizer is configured: access rules need authorizer.class.name on every node"
        raise KafkaError(ErrorCode.SECURITY_DISABLED, message)


def _rule(creation: AclCreation) -> AclBinding:
    return AclBinding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _check(rule: AclBinding, level: int) -> None:
    """Raises KafkaError INVALID_REQUEST, or UNSUPPORTED_VERSION for what the level of metadata.version lacks."""
    problem = _problem(rule)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if rule.host == WILDCARD or "/" not in rule.host:
        return
    if level < CIDR_LEVEL:
        message = f"Networks as hosts need metadata.version {shown_level(CIDR_LEVEL)}, and it is {shown_level(level)}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    if network_of(rule.host) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{rule.host} is no network in CIDR notation, as 10.0.0.0/8 is")


def _problem(rule: AclBinding) -> str | None:
    if rule.resource_type == Resource.CLUSTER and rule.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not rule.resource_name:
        return "A rule needs the name of a resource, this one is empty"
    if rule.resource_type not in members(Resource) or rule.resource_type <= Resource.ANY:
        return f"Resource type {rule.resource_type} is none that a rule can be about"
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Pattern type {rule.pattern_type} is neither LITERAL nor PREFIXED"
    if rule.operation not in members(Operation) or rule.operation <= Operation.ANY:
        return f"Operation {rule.operation} is none that a rule can allow or deny"
    if rule.permission_type not in (Permission.ALLOW, Permission.DENY):
        return f"Permission type {rule.permission_type} is neither ALLOW nor DENY"
    if ":" not in rule.principal:
        return f"The principal {rule.principal} has no type: it begins so, as in User:{rule.principal or 'ada'}"
    return None if rule.host else "A rule needs a host, * for all of them; this one is empty"


def _matching(state: ControllerState, wanted: AclFilter, allowance: Allowance) -> list[tuple[AclBinding, UUID]]:
    if wanted.is_unknown:
        message = "The filter has a code that there is no word for in Kafka; ANY stands for all"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    exact, rule_ids = AclBinding(*wanted), state.image.security.rule_ids  # type: ignore[arg-type]
    if exact in rule_ids or wanted.is_exact:
        return [(exact, rule_ids[exact])] if exact in rule_ids else []
    allowance.take(len(rule_ids))
    return [found for found in rule_ids.items() if wanted.matches(found[0])]
