"""`penstock delegation-tokens`: tokens with which others log in as their owner, until they expire."""

import binascii
from base64 import b64decode
from datetime import UTC, datetime

import click

from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin.delegation_tokens import DelegationToken

HEADERS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


@click.command(short_help="make, renew, expire and show tokens to log in with")
@declared
def command(
    session: NodeSession,
    action: str = actions(
        create="Make a token.",
        renew="Let a token hold longer.",
        expire="Let a token hold less long, or no longer.",
        describe="Show tokens.",
    ),
    owner_principal: tuple[str, ...] = option("Whose token, as User:ada; several for --describe."),
    renewer_principal: tuple[str, ...] = option("Who else may renew and expire it, as User:ada."),
    max_life_time_period: int | None = option("How long it can be renewed, in ms; -1: as long as the cluster allows."),
    renew_time_period: int | None = option("How long it holds from now on, in ms; -1: the cluster's own period."),
    expiry_time_period: int | None = option("How long it holds from now on, in ms; -1: it expires at once."),
    hmac: str | None = option("The HMAC of the token, as it was told."),
    as_json: bool = JSON,
) -> None:
    """Make, renew, expire and show delegation tokens.

    Whoever has a token logs in with it by SCRAM, with its id as the user, its HMAC as the password and
    `tokenauth="true"` in `sasl.jaas.config`. It takes `delegation.token.secret.key` on all nodes.
    """
    if action == "create":
        if len(owner_principal) > 1:
            raise click.UsageError("--create takes one --owner-principal")
        owner = next(iter(owner_principal), None)
        period_ms = -1 if max_life_time_period is None else max_life_time_period
        made = session.run(
            lambda admin: admin.delegation_tokens.create(
                owner=owner, renewers=renewer_principal, max_lifetime_ms=period_ms
            )
        )
        print_rows(HEADERS, [_row(made)], as_json=as_json)
    elif action == "describe":
        owners = list(owner_principal) or None
        found = session.run(lambda admin: admin.delegation_tokens.describe(owners))
        print_rows(HEADERS, [_row(token) for token in found], as_json=as_json)
    else:
        shown = _hmac(action, hmac)
        if action == "renew":
            renewed_ms = -1 if renew_time_period is None else renew_time_period
            ends_ms = session.run(lambda admin: admin.delegation_tokens.renew(shown, renewed_ms))
        else:
            left_ms = -1 if expiry_time_period is None else expiry_time_period
            ends_ms = session.run(lambda admin: admin.delegation_tokens.expire(shown, left_ms))
        print_lines([f"The token expires {_date(ends_ms)}"], {"expiry_timestamp_ms": ends_ms}, as_json=as_json)


def _hmac(action: str, text: str | None) -> bytes:
    if text is None:
        raise click.UsageError(f"--{action} needs --hmac")
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise click.UsageError("--hmac is no base64") from None


def _row(token: DelegationToken) -> tuple[str, ...]:
    dates = tuple(map(_date, (token.issued_ms, token.expires_ms, token.max_ms)))
    renewers = ",".join(token.renewers)
    return (token.token_id, token.password.text, token.owner, token.requester, renewers, *dates)


def _date(time_ms: int) -> str:
    """In the universal time, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
