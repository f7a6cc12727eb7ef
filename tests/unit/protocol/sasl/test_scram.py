"""SCRAM: the exchanges of the RFCs, and everything that must not log in."""

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest

from penstock.protocol.sasl.delegation_tokens import credential_of, hmac_of, password_of
from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.sasl.scram import (
    BY_NUMBER,
    MAX_MESSAGE_BYTES,
    MECHANISMS,
    OWN_FORM,
    Form,
    FoundToken,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    form_of,
    invented,
)
from penstock.protocol.secret import Secret

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credential(password: str = "pencil", mechanism: ScramMechanism = SHA_256) -> ScramCredential:
    salted = mechanism.salted(password, SALT, 4096)
    return ScramCredential(SALT, mechanism.stored_key(salted), mechanism.server_key(salted), 4096)


def server(
    users: dict[str, ScramCredential], mechanism: ScramMechanism = SHA_256, nonce: str = SERVER_NONCE
) -> ScramServer:
    return ScramServer(mechanism, users.get, lambda name: invented(mechanism, name, b"secret", (OWN_FORM,)), nonce)


def test_the_exchange_of_rfc_7677() -> None:
    asked = ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    serves = server({"user": credential()})
    assert asked.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = serves.evaluate(asked.first())
    assert challenge.endswith(b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    proof = asked.evaluate(challenge)
    assert proof is not None
    assert proof.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    last = serves.evaluate(proof)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert asked.evaluate(last) is None
    assert serves.user == "user"


def exchange(
    serves: ScramServer,
    user: str = "user",
    password: str = "pencil",
    change: Callable[[str], str] = str,
    change_first: Callable[[str], str] = str,
) -> bytes:
    """What the server says last to a client whose messages are changed on their way."""
    asked = ScramClient(SHA_256, user, Secret(password), CLIENT_NONCE)
    proof = asked.evaluate(serves.evaluate(change_first(asked.first().decode()).encode()))
    assert proof is not None
    return serves.evaluate(change(proof.decode()).encode())


@pytest.mark.parametrize("name", ["user", "a,b=c", "Ünal", "x" * 1000])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_names_and_both_hashes(name: str, mechanism: ScramMechanism) -> None:
    serves = server({name: credential("geheim…", mechanism)}, mechanism)
    asked = ScramClient(mechanism, name, Secret("geheim…"), CLIENT_NONCE)
    proof = asked.evaluate(serves.evaluate(asked.first()))
    assert proof is not None
    assert asked.evaluate(serves.evaluate(proof)) is None
    assert serves.user == name


def test_a_wrong_password_and_a_user_that_there_is_not_look_alike() -> None:
    users = {"user": credential()}
    told = []
    for name in ("user", "nobody"):
        serves = server(users)
        with pytest.raises(SaslError) as refused:
            exchange(serves, name, "wrong")
        told.append(str(refused.value))
        assert serves.user is None
    assert told[0] == told[1]


def test_the_salt_of_a_stranger_stays() -> None:
    forms = (form_of(credential()),)
    one = invented(SHA_256, "nobody", b"secret", forms)
    assert {invented(SHA_256, "nobody", b"secret", forms) for _ in range(3)} == {one}
    assert form_of(one) == Form(4096, len(SALT))
    assert one != invented(SHA_256, "nobody2", b"secret", forms)
    assert one != invented(SHA_256, "nobody", b"other", forms)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_strangers_have_all_the_forms_of_users(mechanism: ScramMechanism) -> None:
    javas = [credential().replace(salt=salt) for salt in (b"nkr7veh69ssswmtyu5tiadjib", b"2" * 26)]
    own, long = credential().replace(salt=bytes(24)), credential().replace(salt=bytes(1024), iterations=8192)
    forms = {form_of(each) for each in (*javas, own, long)}
    assert len(forms) == 3, "users of Kafka's tools look alike, whether a salt has 25 or 26 characters"
    strangers = [invented(mechanism, f"user-{number}", b"secret", forms) for number in range(100)]
    assert {form_of(each) for each in strangers} == forms
    assert {len(each.salt) for each in strangers if form_of(each).salt_bytes == 0} >= {25, 26}
    assert {len(each.salt) for each in strangers if each.iterations == 8192} == {1024}
    again = [invented(mechanism, f"user-{number}", b"secret", sorted(forms, key=str)) for number in range(100)]
    assert again == strangers, "in which order the forms come is nothing to them"


DOUBLED = "r=" + CLIENT_NONCE + CLIENT_NONCE + SERVER_NONCE
"""As an old librdkafka has it."""


@pytest.mark.parametrize(
    "foreign", ["r=" + CLIENT_NONCE, "r=" + SERVER_NONCE, "r=" + CLIENT_NONCE + SERVER_NONCE + "x", DOUBLED]
)
def test_another_nonce_is_refused_even_with_the_right_proof(foreign: str) -> None:
    """The proof is made for the foreign nonce, as one that was overheard would be."""
    mechanism, known = SHA_256, credential()
    serves = server({"user": known})
    bare = f"n=user,r={CLIENT_NONCE}"
    challenge = serves.evaluate(f"n,,{bare}".encode()).decode()
    unproven = f"c=biws,{foreign}"
    salted = mechanism.salted("pencil", SALT, 4096)
    key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(known.stored_key, f"{bare},{challenge},{unproven}".encode())
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    with pytest.raises(SaslError, match="wrong credentials") as refused:
        serves.evaluate(f"{unproven},p={proof}".encode())
    assert serves.user is None
    assert ("librdkafka before 2.6.1" in refused.value.cause) == (foreign == DOUBLED)


def test_a_proof_is_good_for_one_login() -> None:
    users = {"user": credential()}
    seen: list[str] = []

    def overheard(text: str) -> str:
        seen.append(text)
        return text

    exchange(server(users), change=overheard)
    again = server(users, nonce="another")
    again.evaluate(f"n,,n=user,r={CLIENT_NONCE}".encode())
    with pytest.raises(SaslError):
        again.evaluate(seen[0].encode())


def test_what_a_proof_is_compared_with_counts_to_its_end() -> None:
    """One bit of the last byte is another key."""

    def flipped(text: str) -> str:
        head, proof = text.split(",p=")
        raw = bytearray(b64decode(proof))
        raw[-1] ^= 1
        return f"{head},p={b64encode(raw).decode()}"

    with pytest.raises(SaslError, match="wrong credentials"):
        exchange(server({"user": credential()}), change=flipped)


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_a_proof_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(SaslError):
        exchange(
            server({"user": credential()}),
            change=lambda text: f"{text.split(',p=')[0]},p={b64encode(bytes(length)).decode()}",
        )


@pytest.mark.parametrize("header", ["n,a=admin,", "n,a=use,", "n,a=users,"])
def test_nobody_logs_in_for_another(header: str) -> None:
    for users in ({"user": credential(), "admin": credential()}, {}):
        with pytest.raises(SaslError, match="authorization id"):
            exchange(server(users), change_first=lambda text: header + text[3:])


def test_ones_own_authorization_id_is_taken() -> None:
    serves = server({"user": credential()})
    mechanism, header, bare = SHA_256, "n,a=user,", f"n=user,r={CLIENT_NONCE}"
    challenge = serves.evaluate((header + bare).encode()).decode()
    unproven = f"c={b64encode(header.encode()).decode()},r={CLIENT_NONCE}{SERVER_NONCE}"
    salted = mechanism.salted("pencil", SALT, 4096)
    key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(mechanism.hash(key), f"{bare},{challenge},{unproven}".encode())
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    serves.evaluate(f"{unproven},p={proof}".encode())
    assert serves.user == "user"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff\xfe",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=user=41,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\nb",
        b"n,,m=more,n=user,r=abc",
        b"n,,n=user",
    ],
)
def test_first_messages_that_are_refused(token: bytes) -> None:
    serves = server({"user": credential()})
    with pytest.raises(SaslError):
        serves.evaluate(token)
    assert serves.user is None


def test_long_messages_are_refused_before_they_are_looked_through() -> None:
    long = b"a" * MAX_MESSAGE_BYTES
    with pytest.raises(SaslError, match="too many"):
        server({}).evaluate(b"n,,n=" + long + b",r=abc")
    serves, asked = server({"user": credential()}), ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    serves.evaluate(asked.first())
    with pytest.raises(SaslError, match="too many"):
        serves.evaluate(b"c=biws,r=" + long + b",p=YQ==")
    with pytest.raises(SaslError, match="too many"):
        asked.evaluate(f"r={CLIENT_NONCE}x,s=c2FsdA==,i=4096,x=".encode() + long)
    longest = b"n,,n=user,r=abc,x="
    assert server({}).evaluate(longest + long[len(longest) :])


def test_a_credential_that_changes_during_the_exchange_counts_no_more() -> None:
    users = {"user": credential()}
    serves = server(users)

    def removed(text: str) -> str:
        users["user"] = credential("another")
        return text

    with pytest.raises(SaslError):
        exchange(serves, change=removed)


def test_a_token_behind_the_last_one_is_refused() -> None:
    serves = server({"user": credential()})
    exchange(serves)
    with pytest.raises(SaslError, match="behind the last"):
        serves.evaluate(b"n,,n=user,r=abc")


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("r=other,s=c2FsdA==,i=4096", "nonce"),
        (f"r={CLIENT_NONCE},s=c2FsdA==,i=4096", "nonce"),
        (f"r={CLIENT_NONCE}x,s=c2FsdA==,i=4095", "4095 iterations"),
        (f"r={CLIENT_NONCE}x,s=c2FsdA==,i=999999999", "iterations"),
        (f"r={CLIENT_NONCE}x,s=?,i=4096", "first message"),
        ("e=other-error", "first message"),
    ],
)
def test_challenges_that_a_client_refuses(challenge: str, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE).evaluate(challenge.encode())


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    asked = ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    asked.evaluate(server({"user": credential()}).evaluate(asked.first()))
    with pytest.raises(SaslError, match="does not know"):
        asked.evaluate(b"v=" + b64encode(bytes(32)))


def test_nothing_shows_what_a_password_is_made_of() -> None:
    assert "hidden" in repr(credential())
    assert str(SALT) not in repr(credential())


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_a_delegation_token_logs_in_as_its_owner(mechanism: ScramMechanism) -> None:
    secret = Secret("of all nodes")
    token = FoundToken(credential_of(mechanism, secret, "id"), "ada", 1_000)
    there = {"id": token}

    def log_in(name: str, by_token: bool = True, password: Secret | None = None) -> ScramServer:
        users = {"ada": credential("pencil", mechanism)}
        serves = ScramServer(
            mechanism, users.get, lambda name: invented(mechanism, name, b"s", (OWN_FORM,)), "mine", there.get
        )
        asks = ScramClient(mechanism, name, password or password_of(hmac_of(secret, "id")), "yours", by_token)
        serves.evaluate(asks.evaluate(serves.evaluate(asks.first())) or b"")
        return serves

    known = log_in("id")
    assert (known.user, known.token_id, known.lifetime_ms, known.proof) == ("ada", "id", 1_000, token.credential)
    pencil = Secret("pencil")
    for name, by_token, password in (
        ("id", False, None),
        ("id", True, pencil),
        ("other", True, None),
        ("ada", True, pencil),
    ):
        with pytest.raises(SaslError, match="wrong credentials"):
            log_in(name, by_token, password)
    assert log_in("ada", by_token=False, password=Secret("pencil")).token_id is None
    there.clear()
    with pytest.raises(SaslError, match="wrong credentials"):
        log_in("id")


def test_numbers_of_mechanisms_are_those_of_kafka() -> None:
    assert {number: one.name for number, one in BY_NUMBER.items()} == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
    assert {name: one.number for name, one in MECHANISMS.items()} == {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
