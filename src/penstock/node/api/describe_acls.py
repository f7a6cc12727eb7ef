"""The answer to DescribeAcls: the access rules that a filter matches, by what they are about."""

from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import ALLOW_ALL
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.acls import AclBinding, filter_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

RULES_PER_STEP = 500


def describe_acls(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeAclsRequest
) -> Steps[DescribeAclsResponse]:
    response, wanted = DescribeAclsResponse(error_message=None), filter_of(request)
    if node.authorizer is ALLOW_ALL:
        response.error_code = ErrorCode.SECURITY_DISABLED
        response.error_message = "No authorizer is configured: authorizer.class.name says so"
        return response
    if wanted.is_unknown:
        response.error_code = ErrorCode.INVALID_REQUEST
        response.error_message = "The filter has a code that there is no word for in Kafka; ANY stands for all"
        return response
    patterns: dict[tuple[int, str, int], DescribeAclsResource] = {}
    rules = list(node.image.security.rule_ids)
    for begin in range(0, len(rules), RULES_PER_STEP):
        for rule in rules[begin : begin + RULES_PER_STEP]:
            if wanted.matches(rule):
                _pattern(patterns, rule).acls.append(
                    AclDescription(
                        principal=rule.principal,
                        host=rule.host,
                        operation=rule.operation,
                        permission_type=rule.permission_type,
                    )
                )
        yield None
    response.resources = list(patterns.values())
    return response


def _pattern(patterns: dict[tuple[int, str, int], DescribeAclsResource], rule: AclBinding) -> DescribeAclsResource:
    pattern = rule.resource_type, rule.resource_name, rule.pattern_type
    if pattern not in patterns:
        patterns[pattern] = DescribeAclsResource(
            resource_type=rule.resource_type, resource_name=rule.resource_name, pattern_type=rule.pattern_type
        )
    return patterns[pattern]
