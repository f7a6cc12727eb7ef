import pytest

from penstock.client.providers import Resolved
from penstock.work.connect.config import ConfigKey
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.secrets import with_secrets, without_secrets
from penstock.work.connect.runtime.secret_values import HIDDEN, discretion, secret_keys


class Sealed:
    """A transform with a password of its own."""

    keys = (ConfigKey("key", "password", required=True, documentation="how"), ConfigKey("field"))


HTTP = {"connector.class": "HttpSink", "name": "n", "topics": "t", "http.url": "http://x", "topics.regex": "no"}
AVRO = "io.confluent.connect.avro.AvroConverter"
SECRETS = {
    "http.headers.authorization": "s",
    "http.headers.additional": "X-Api-Key: s",
    "value.converter.basic.auth.user.info": "s",
    "transforms.seal.key": "s",
    "consumer.override.sasl.jaas.config": "s",
    "producer.override.ssl.keystore.password": "s",
}
CONFIG = {
    **HTTP,
    **SECRETS,
    "value.converter": AVRO,
    "value.converter.schema.registry.url": "http://r",
    "transforms": "other, seal",
    "transforms.other.type": "org.apache.kafka.connect.transforms.Flatten$Value",
    "transforms.seal.type": f"{__name__}:Sealed",
    "transforms.seal.field": "f",
    "consumer.override.fetch.min.bytes": "1",
}


def test_passwords_are_those_of_the_plugins_definitions() -> None:
    assert secret_keys(CONFIG) == set(SECRETS)
    shown = without_secrets(CONFIG)
    assert {key for key, value in shown.items() if value == HIDDEN} == set(SECRETS)
    assert with_secrets(shown, CONFIG) == CONFIG
    files = {"connector.class": "FilesSink", "store.url": "s3://b", "store.optional": "x", "store.option.secret": "s"}
    shown = without_secrets(files)
    assert shown == files | {"store.option.secret": HIDDEN}
    assert with_secrets(shown, files) == files
    shown = without_secrets(CONFIG)
    assert with_secrets(shown, CONFIG) == CONFIG
    assert with_secrets({**shown, "http.headers.authorization": "new"}, CONFIG)["http.headers.authorization"] == "new"


def test_a_task_hides_what_its_connector_hides() -> None:
    assert without_secrets({"http.headers.authorization": "s", "task": "1"}, CONFIG) == {
        "http.headers.authorization": HIDDEN,
        "task": "1",
    }


@pytest.mark.parametrize("missing", ["connector.class", "value.converter", "transforms.seal.type"])
def test_of_a_plugin_that_is_not_here_nothing_is_told(missing: str) -> None:
    shown = without_secrets({**CONFIG, missing: "no_such_module:Thing"})
    assert not {"s", "X-Api-Key: s"} & set(shown.values())
    assert shown["name"] == "n"


def test_what_is_hidden_must_be_stored() -> None:
    with pytest.raises(RestError, match=r"http.headers.authorization is \[hidden\]"):
        with_secrets(without_secrets(CONFIG), {})
    assert with_secrets({**HTTP, "http.url": HIDDEN}, {})["http.url"] == HIDDEN, "that is no password"


@pytest.mark.parametrize(
    "address",
    [
        "sc://spark:443/;use_ssl=true;token=abc",
        "sc://spark:443/;token=abc",
        "https://ada:abc@host/in",
        "https://:abc@host",
        "https://host/in?a=1&X-Api-Key=abc",
    ],
)
def test_an_address_with_a_secret_in_it_is_hidden_whatever_its_key(address: str) -> None:
    config = {**HTTP, "http.url": address, "pipeline.driver": address}
    shown = without_secrets(config)
    assert shown == {**config, "http.url": HIDDEN, "pipeline.driver": HIDDEN}
    assert with_secrets(shown, config) == config
    assert with_secrets({**shown, "http.url": "http://y"}, config) == {**config, "http.url": "http://y"}


@pytest.mark.parametrize(
    "address",
    [
        "sc://spark:443/;use_ssl=true",
        "https://ada@host/in",
        "https://host:80/a:b@c",
        "https://host/in?token=",
        "https://host/token",
        "no-address;token=abc",
        "kept: https://ada:abc@host/in",
    ],
)
def test_other_addresses_are_shown(address: str) -> None:
    config = {**HTTP, "http.url": address}
    assert without_secrets(config) == config


def test_words_in_keys_tell_secrets_of_clients_alone() -> None:
    clients = {
        f"{client}.override.{key}": "s"
        for client in ("producer", "consumer", "admin")
        for key in (
            "ssl.key.password",
            "ssl.keystore.key",
            "ssl.keystore.certificate.chain",
            "sasl.jaas.config",
            "my.secret",
        )
    }
    others = {"note.password": "n", "my.secret": "n", "producer.password": "n", "producer.override.acks": "1"}
    config: dict[str, str | None] = {**HTTP, **clients, **others, "nothing": None, "producer.override.password": None}
    assert without_secrets(config) == config | dict.fromkeys(clients, HIDDEN)
    assert with_secrets(without_secrets(config), config) == config


WRITTEN = {
    **HTTP,
    "http.url": "https://ada:l0velace@host/in?a=1&api_key=k%2Fey&b=2",
    "http.headers.authorization": "Bearer b",
    "http.authorization.password": "7",
    "batch.max.size": "3",
    "topics": " clicks\n",
}
TOLD = discretion(Resolved(WRITTEN, looked_up={"${env:SIZE}": "3", "${env:TOPIC}": " clicks\n"}))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"no {WRITTEN['http.url']} here", "no [hidden] here"),
        ("https://ada:l0velace@host/in/t?a=1", "https://ada:[hidden]@host/in/t?a=1"),
        ("api_key=k%2Fey is k/ey", "api_key=[hidden] is [hidden]"),
        ("Bearer b", "[hidden]"),
        ("7 of 37 in 3 of 13, n", "[hidden] of 37 in ${env:SIZE} of 13, n"),
        ("clicks and clicks2", "${env:TOPIC} and ${env:TOPIC}2"),
    ],
)
def test_words_are_without_secrets_and_with_references(words: str, told: str) -> None:
    assert TOLD(words) == told


JAAS = """org.apache.kafka.X required username="ada" password="l0ve\\"lace" note='n' oauth.client.secret='s3cret';"""


@pytest.mark.parametrize("is_reference", [True, False])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"in {JAAS}", "in {}"),
        ('ada: no l0ve"lace', "ada: no [hidden]"),
        ('ada: no l0ve\\"lace, nor s3cret, n', "ada: no [hidden], nor [hidden], n"),
    ],
)
def test_what_stands_in_quotes_within_a_secret_is_one(words: str, told: str, is_reference: bool) -> None:
    reference = "${file:jaas}"
    key = "note" if is_reference else "producer.override.sasl.jaas.config"
    looked_up = {reference: JAAS} if is_reference else {}
    discreet = discretion(Resolved({**HTTP, key: JAAS}, looked_up=looked_up))
    assert discreet(words) == told.format(reference if is_reference else HIDDEN)


def test_of_a_plugin_that_is_not_here_no_words_are_left_out() -> None:
    config = {"connector.class": "no_such_module:Thing", "size": "line", "to": "https://:abcd@host"}
    assert discretion(Resolved(config))("line 1: abcd") == "line 1: [hidden]"
