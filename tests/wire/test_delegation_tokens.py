"""Tokens that a user makes for others, who log in with them as that user, on real sockets, until they expire."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.delegation_tokens import DelegationToken
from penstock.client.connection import Connection, connect
from penstock.client.errors import AuthenticationFailedError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.secret import Secret
from penstock.testing import Cluster

USERS = 'user_admin="hush" user_ada="engine" user_bob="builder"'


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS};",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "delegation.token.secret.key": "a secret of all nodes",
    }
    with Cluster(config=settings) as cluster:
        yield cluster.bootstrap_servers


def keys(mechanism: str, jaas: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def by_password(user: str, password: str) -> ClientSettings:
    jaas = f'{PLAIN_MODULE} required username="{user}" password="{password}";'
    return with_properties(ClientSettings(), keys("PLAIN", jaas))


ADMIN, ADA, BOB = by_password("admin", "hush"), by_password("ada", "engine"), by_password("bob", "builder")


def by_token(token: DelegationToken, mechanism: str = "SCRAM-SHA-256", extension: str = "true") -> ClientSettings:
    user, password = token.token_id, token.password.text
    jaas = f'{SCRAM_MODULE} required username="{user}" password="{password}" tokenauth="{extension}";'
    return with_properties(ClientSettings(), keys(mechanism, jaas))


@asynccontextmanager
async def connected(node: str, settings: ClientSettings) -> AsyncIterator[Connection]:
    connection = await connect(parse_bootstrap_servers(node)[0], settings)
    try:
        yield connection
    finally:
        await connection.close()


async def refused(node: str, settings: ClientSettings) -> str:
    with pytest.raises(AuthenticationFailedError) as error:
        async with connected(node, settings):
            pass
    return str(error.value)


async def code_of(attempt: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await attempt  # type: ignore[misc]
    return error.value.code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_token_logs_in_as_its_owner_until_it_is_taken_back(node: str, mechanism: str) -> None:
    async with Admin(node, ADMIN) as admin:
        token = await admin.delegation_tokens.create(renewers=["User:bob"])
        assert (token.owner, token.requester, token.renewers) == ("User:admin", "User:admin", ("User:bob",))
        async with Admin(node, by_token(token, mechanism)) as other, connected(node, by_token(token)) as held:
            assert await other.topics.names() == []
            tokens = other.delegation_tokens
            assert await code_of(tokens.create()) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert await code_of(tokens.describe()) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            shown = b64decode(token.password.text)
            assert await code_of(tokens.renew(shown)) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert token in await admin.delegation_tokens.describe()
            async with Admin(node, BOB) as renewer:
                assert token in await renewer.delegation_tokens.describe()
                await renewer.delegation_tokens.renew(shown, 60_000)
                await renewer.delegation_tokens.expire(shown)
            async with asyncio.timeout(10):
                await held._lost.wait()
        assert "wrong credentials" in await refused(node, by_token(token, mechanism))


async def test_what_does_not_log_in(node: str) -> None:
    async with Admin(node, ADA) as ada:
        token = await ada.delegation_tokens.create(max_lifetime_ms=3_600_000)
        assert token.max_ms - token.issued_ms == 3_600_000
    for wrong in (token.replace(password=Secret("AAAA")), token.replace(token_id="ada"), token.replace(token_id="")):
        if wrong.token_id:
            await refused(node, by_token(wrong))
    await refused(node, by_token(token, extension="false"))
    async with connected(node, by_token(token)):
        pass


async def test_tokens_of_others_take_a_right(node: str) -> None:
    async with Admin(node, ADMIN) as admin, Admin(node, ADA) as ada, Admin(node, BOB) as bob:
        of_bob = await admin.delegation_tokens.create(owner="User:bob")
        assert (of_bob.owner, of_bob.requester) == ("User:bob", "User:admin")
        denied = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert await code_of(ada.delegation_tokens.create(owner="User:bob")) == denied
        assert await code_of(ada.delegation_tokens.create(owner="Group:x")) == denied
        assert await code_of(admin.delegation_tokens.create(owner="Group:x")) == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert await code_of(ada.delegation_tokens.create(renewers=["Group:x"])) == ErrorCode.INVALID_PRINCIPAL_TYPE
        shown = b64decode(of_bob.password.text)
        assert await code_of(ada.delegation_tokens.expire(shown)) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await code_of(ada.delegation_tokens.renew(b"x")) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert of_bob not in await ada.delegation_tokens.describe()
        assert await ada.delegation_tokens.describe(["User:bob"]) == []
        assert of_bob in await bob.delegation_tokens.describe(["User:bob"])
        assert await bob.delegation_tokens.describe([]) == []
        async with connected(node, by_token(of_bob)):
            pass
        await bob.delegation_tokens.expire(shown)


async def test_a_session_ends_with_its_token(node: str) -> None:
    async with Admin(node, ADA) as ada:
        token = await ada.delegation_tokens.create()
        await ada.delegation_tokens.expire(b64decode(token.password.text), 0)
        await refused(node, by_token(token))
        assert await code_of(ada.delegation_tokens.renew(b64decode(token.password.text))) in (
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        )


def test_the_command_line(node: str, tmp_path: Path) -> None:
    file = tmp_path / "ada.properties"
    file.write_text("\n".join(f"{name}={it}" for name, it in ADA.security.properties.items()))
    file.write_text(file.read_text() + "\nsecurity.protocol=SASL_PLAINTEXT\n")

    def run(*words: str, fails: bool = False) -> str:
        common = ("--bootstrap-server", node, "--command-config", str(file))
        result = CliRunner().invoke(main, ["delegation-tokens", *words, *common])
        assert (result.exit_code != 0) == fails, result.output
        return result.output

    (made,) = json.loads(run("--create", "--renewer-principal", "User:bob", "--max-life-time-period", "-1", "--json"))
    assert (made["owner"], made["renewers"]) == ("User:ada", "User:bob")
    assert made["tokenid"] in run("--describe", "--owner-principal", "User:ada")
    assert "The token expires 2" in run("--renew", "--hmac", made["hmac"], "--renew-time-period", "-1")
    assert "The token expires 2" in run("--expire", "--hmac", made["hmac"], "--expiry-time-period", "-1")
    assert "there is no token with this HMAC" in run("--expire", "--hmac", made["hmac"], fails=True)
    assert "is no base64" in run("--expire", "--hmac", "?", fails=True)
    assert "needs --hmac" in run("--renew", fails=True)


@pytest.mark.parametrize("what", ["create", "describe"])
async def test_who_is_nobody_gets_no_token(what: str) -> None:
    with Cluster(config={"delegation.token.secret.key": "secret"}) as cluster:
        async with Admin(cluster.bootstrap_servers) as admin:
            tokens = admin.delegation_tokens
            attempt = tokens.create() if what == "create" else tokens.describe()
            assert await code_of(attempt) == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
