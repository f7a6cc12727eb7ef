"""`sasl.jaas.config`, as Java's tokenizer reads it; no error tells a value."""

import pytest

from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, credentials_of, parse_jaas
from penstock.protocol.secret import Secret


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ('username="ada" password="a secret"', {"username": "ada", "password": "a secret"}),
        ("username=ada password='it\"s'", {"username": "ada", "password": 'it"s'}),
        ('password="a\\"b\\\\c\\tend\\101\\0"', {"password": 'a"b\\c\tendA\0'}),
        ("username=a.b-c_d$9 serviceName=kafka", {"username": "a.b-c_d$9", "serviceName": "kafka"}),
        ('user_ada="1" // comment\n user_bob="2" /* another\n one */', {"user_ada": "1", "user_bob": "2"}),
        ('user_ada="1" / the rest is a comment\n user_bob="2"', {"user_ada": "1", "user_bob": "2"}),
        ("username=Ünal", {"username": "Ünal"}),
        ('a="1" a="2"', {"a": "2"}),
        ("", {}),
    ],
)
def test_options(options: str, read: dict[str, str]) -> None:
    module = parse_jaas(f"{PLAIN_MODULE} required {options};", "PLAIN")
    assert {name: it.text for name, it in module.options.items()} == read


@pytest.mark.parametrize(
    ("quoted", "read"),
    [
        (r"\a\b\f\n\r\t\v", "\a\b\f\n\r\t\v"),
        (r"\377\400\47\8\078", "\xff\x200'8\x078"),
        (r"\x\\\'", "x\\'"),
        ("", ""),
    ],
)
def test_escapes(quoted: str, read: str) -> None:
    module = parse_jaas(f'{PLAIN_MODULE} required a="{quoted}";', "PLAIN")
    assert module.text("a") == read
    assert module.text("b") is None


@pytest.mark.parametrize("flag", ["required", "Requisite", "sufficient", "OPTIONAL"])
def test_flags(flag: str) -> None:
    assert parse_jaas(f"{PLAIN_MODULE} {flag};", "PLAIN").name == PLAIN_MODULE


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE), ("SCRAM-SHA-512", SCRAM_MODULE)],
)
@pytest.mark.parametrize(("said", "is_token"), [("true", True), ("TRUE", True), ("false", False), ("", False)])
def test_who_logs_in_by_token(mechanism: str, module: str, said: str, is_token: bool) -> None:
    text = f'{module} required username=a password=b tokenauth="{said}";'
    if is_token and module == PLAIN_MODULE:
        with pytest.raises(JaasError, match="by SCRAM alone"):
            credentials_of(text, mechanism)
    else:
        assert credentials_of(text, mechanism) == ("a", Secret("b"), is_token)


@pytest.mark.parametrize(("user", "password", "is_right"), [("", "x", False), ("x", "", True), ("x", "y", True)])
def test_a_password_may_be_empty_and_a_name_may_not(user: str, password: str, is_right: bool) -> None:
    text = f'{PLAIN_MODULE} required username="{user}" password="{password}";'
    if is_right:
        assert credentials_of(text, "PLAIN") == (user, Secret(password), False)
    else:
        with pytest.raises(JaasError, match="one of them is missing"):
            credentials_of(text, "PLAIN")


def test_users_of_a_listener() -> None:
    module = parse_jaas(f'{PLAIN_MODULE} REQUIRED username="n" password="p" user_ada="1" user_="2";', "PLAIN")
    assert module.users == {"ada": Secret("1"), "": Secret("2")}


def test_as_whom_a_client_logs_in() -> None:
    text = f'{SCRAM_MODULE} required username="ada" password="hush";'
    assert credentials_of(text, "SCRAM-SHA-512") == ("ada", Secret("hush"), False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 login modules"),
        (";", "does not begin"),
        (f"{PLAIN_MODULE}", "required"),
        (f"{PLAIN_MODULE} username=ada;", "required"),
        (f"{PLAIN_MODULE} required username;", "no ="),
        (f"{PLAIN_MODULE} required username=;", "no value"),
        (f"{PLAIN_MODULE} required username=ada password=5hush;", "no value, or one that has to stand in quotes"),
        (f"{PLAIN_MODULE} required username=ada password=hush!;", "no name"),
        (f"{PLAIN_MODULE} required username=ada password=hush", "no semicolon"),
        (f'{PLAIN_MODULE} required password="hush', "no semicolon"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "2 login modules"),
        (f"{SCRAM_MODULE} required username=ada password=hush;", PLAIN_MODULE),
        ("com.sun.security.auth.module.JndiLoginModule required password=hush;", PLAIN_MODULE),
    ],
)
def test_what_is_refused_by_name_and_without_values(text: str, why: str) -> None:
    with pytest.raises(JaasError, match=why) as refused:
        parse_jaas(text, "PLAIN")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("options", ["username=ada", "password=hush"])
def test_a_client_needs_a_name_and_a_password(options: str) -> None:
    with pytest.raises(JaasError) as refused:
        credentials_of(f"{SCRAM_MODULE} required {options};", "SCRAM-SHA-256")
    assert "hush" not in str(refused.value)


def test_a_delegation_token_logs_in_by_scram_alone() -> None:
    options = "required username=id password=hmac tokenauth=true;"
    assert credentials_of(f"{SCRAM_MODULE} {options}", "SCRAM-SHA-512") == ("id", Secret("hmac"), True)
    with pytest.raises(JaasError, match="by SCRAM alone"):
        credentials_of(f"{PLAIN_MODULE} {options}", "PLAIN")
