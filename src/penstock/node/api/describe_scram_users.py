"""The answer to DescribeUserScramCredentials: who can log in with SCRAM, by which mechanism; nothing of passwords."""

from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import times_named
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

USERS_PER_STEP = 500


def describe_scram_users(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Without names all users are told."""
    found: dict[str, list[CredentialInfo]] = {}
    credentials = list(node.image.security.scram_credentials.items())
    for begin in range(0, len(credentials), USERS_PER_STEP):
        for (mechanism, name), credential in credentials[begin : begin + USERS_PER_STEP]:
            info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            found.setdefault(name, []).append(info)
        yield None
    wanted = (yield from times_named(user.name for user in request.users or ())) or (yield from times_named(found))
    results, pace = [], Pace(USERS_PER_STEP)
    for name, times in wanted.items():
        results.append(_result(name, found.get(name, []), times))
        if pace.is_due():
            yield None
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _result(name: str, infos: list[CredentialInfo], times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name, error_message=None)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"The request asks for the user {name} {times} times"
    elif not infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"The user {name} has no SCRAM credential"
    else:
        result.credential_infos = sorted(infos, key=lambda info: info.mechanism)
    return result
