"""The answer to DescribeDelegationToken: tokens that the client may know of, with what it takes to log in with them."""

from penstock.metadata.security_records import DelegationTokenRecord
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOKEN, DESCRIBE_TOKENS
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import times_named
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.sasl.delegation_tokens import hmac_of
from penstock.protocol.secret import Secret

TOKENS_PER_STEP = 200


def describe_tokens(
    node: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    """Without owners all tokens are looked through; an empty list of owners finds none."""
    secret = node.config.delegation_token_secret_key
    if not context.session.asker:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not secret:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = (f"{one.principal_type}:{one.principal_name}" for one in request.owners or ())
    wanted = yield from times_named(owners)
    found, pace = list[DescribedDelegationToken](), Pace(TOKENS_PER_STEP)
    for token in list(node.image.security.delegation_tokens.values()):
        own = {token.owner, token.requester, *token.renewers}
        if (request.owners is None or any(one in wanted for one in own)) and (
            context.session.asker in own or _may(context, token)
        ):
            found.append(_described(token, Secret(secret)))
        if pace.is_due():
            yield None
    return DescribeDelegationTokenResponse(tokens=found)


def _may(context: RequestContext, token: DelegationTokenRecord) -> bool:
    """What a token is proved with outlives a node that only watches, so there rights count as well."""
    return context.has(DESCRIBE_TOKEN, token.token_id) or context.has(DESCRIBE_TOKENS, token.owner)


def _described(token: DelegationTokenRecord, secret: Secret) -> DescribedDelegationToken:
    (owner_type, owner), (requester_type, requester) = _parts(token.owner), _parts(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac_of(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(_parts, token.renewers)
        ],
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
