"""What people get wrong about security when they start a node or set up a client: each is told with cause and cure.

What only shows when both meet is in tests/wire/test_misconfigurations.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.wrong_stores import Files, Settings

from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.node.assembly.protection import UnprotectedError, check_keys
from penstock.protocol.errors import KafkaError
from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("stores"))


# What a node is started with

JAAS = "listener.name.clients.plain.sasl.jaas.config"


def of_sasl(**changes: str) -> Settings:
    """A node on which users of PLAIN log in."""
    right = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "inter.broker.listener.name": "CLIENTS",
        JAAS: f'{PLAIN_MODULE} required username="ada" password="x" user_ada="x";',
    }
    given = {key.replace("_", "."): value for key, value in changes.items() if key != "jaas"}
    return right | given | ({JAAS: changes["jaas"]} if "jaas" in changes else {})


def of_three(**changes: str) -> Settings:
    """A node of several."""
    right = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "NODES",
    }
    return right | {key.replace("_", "."): value for key, value in changes.items()}


BY_LOG_IN = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ada="x";',
}
STARTS: dict[str, tuple[Callable[[Files], Settings], str]] = {
    "no key store": (
        lambda files: {"listeners": "SSL://127.0.0.1:0"},
        r"the listener SSL: ssl\.keystore\.location is missing: who listens needs a key",
    ),
    "no key store for a controller": (
        lambda files: of_three(listener_security_protocol_map="CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:SSL"),
        r"the listener CONTROLLER: ssl\.keystore\.location is missing",
    ),
    "a key store that is not there": (
        lambda files: files.of_tls(ssl_keystore_location="/nowhere.pem"),
        r"ssl\.keystore\.location=/nowhere\.pem cannot be used: No such file",
    ),
    "a trust store that is not there": (
        lambda files: files.of_tls(ssl_truststore_location="/nowhere.pem"),
        r"ssl\.truststore\.location=/nowhere\.pem cannot be used: No such file",
    ),
    "the key of another certificate": (
        lambda files: files.of_tls(ssl_keystore_location=files.holding(files.ada.key_pem + files.node.certificate_pem)),
        "the key and the certificate behind it do not belong together",
    ),
    "a certificate without its key": (
        lambda files: files.of_tls(ssl_keystore_location=files.holding(files.node.certificate_pem)),
        "there is no private key in it: put it in front of the certificate",
    ),
    "a key without its certificate": (
        lambda files: files.of_tls(ssl_keystore_location=files.holding(files.node.key_pem)),
        "there is no certificate in it: put it behind the key",
    ),
    "a locked key without its password": (
        lambda files: files.of_tls(
            ssl_keystore_location=files.holding(files.node.locked_key_pem + files.node.certificate_pem)
        ),
        r"it is encrypted, and ssl\.key\.password is missing",
    ),
    "a locked key with another password": (
        lambda files: files.of_tls(
            ssl_keystore_location=files.holding(files.node.locked_key_pem + files.node.certificate_pem),
            ssl_key_password="guessed",
        ),
        r"ssl\.key\.password is wrong",
    ),
    "PKCS12 with another password": (
        lambda files: files.of_tls(ssl_keystore_location=str(files.node.p12), ssl_keystore_password="guessed"),
        r"ssl\.keystore\.password is another one",
    ),
    "PKCS12 without a password": (
        lambda files: files.of_tls(ssl_keystore_location=str(files.node.p12)),
        r"ssl\.keystore\.password is missing",
    ),
    "a key store of a kind that is not read": (
        lambda files: files.of_tls(ssl_keystore_location=_jceks(files)),
        r"it is a JCEKS, which is not read; make it PKCS12: keytool -importkeystore",
    ),
    "a key for a trust store": (
        lambda files: files.of_tls(ssl_truststore_location=files.holding(files.node.key_pem)),
        r"the certificates of ssl\.truststore cannot be used: there is no certificate in it",
    ),
    "a version that is too old": (
        lambda files: files.of_tls(ssl_enabled_protocols="TLSv1.1"),
        r"ssl\.enabled\.protocols has TLSv1\.1: allowed are TLSv1\.2 and TLSv1\.3",
    ),
    "a suite that nobody knows": (
        lambda files: files.of_tls(ssl_cipher_suites="RC4"),
        r"ssl\.cipher\.suites has no suite that is known: RC4",
    ),
    "a word for ssl.client.auth": (
        lambda files: files.of_tls(ssl_client_auth="yes"),
        r"ssl\.client\.auth: 'yes' is not allowed; expected .*required, requested, none",
    ),
    "a kind of store": (
        lambda files: files.of_tls(ssl_keystore_type="JSK"),
        r"ssl\.keystore\.type=JSK: allowed are PEM, PKCS12, JKS",
    ),
    "a pattern in the rules of principals": (
        lambda files: files.of_tls(ssl_principal_mapping_rules="RULE:^CN=(.*$/$1/"),
        r"ssl\.principal\.mapping\.rules: .* is no pattern",
    ),
    "a class of Java's for TLS": (
        lambda files: files.of_tls(ssl_engine_factory_class="a.B"),
        r"ssl\.engine\.factory\.class names a class of Java, which is not there: remove it",
    ),
    "a listener that the protocol map lacks": (
        lambda files: {"listeners": "SAFE://127.0.0.1:0"},
        r"whose name listener\.security\.protocol\.map knows; it knows",
    ),
    "a protocol that there is not": (
        lambda files: {"listeners": "SAFE://127.0.0.1:0", "listener.security.protocol.map": "SAFE:TLS"},
        "a protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    "a mechanism that is misspelt": (
        lambda files: of_sasl(sasl_enabled_mechanisms="SCRAM-SHA512"),
        "SCRAM-SHA512 is no mechanism of Kafka's: take one of PLAIN, SCRAM-SHA-256",
    ),
    "Kerberos, Kafka's default": (
        lambda files: of_sasl(sasl_enabled_mechanisms="GSSAPI"),
        "GSSAPI .Kerberos. is not there: take one of PLAIN",
    ),
    "a node alone that cannot log in to write its audit log": (
        lambda files: of_sasl(penstock_authorizer_audit_topic="audit", jaas=f'{PLAIN_MODULE} required user_ada="x";'),
        "as whom this node logs in on CLIENTS; its options username and password",
    ),
    "PLAIN without users": (
        lambda files: of_sasl(jaas=f'{PLAIN_MODULE} required username="a" password="b";'),
        'expected users of PLAIN in it, as in user_ada="<password>"',
    ),
    "JAAS without a listener": (
        lambda files: {key: text for key, text in of_sasl(sasl_jaas_config="x").items() if key != JAAS},
        r"sasl\.jaas\.config alone are not read",
    ),
    "JAAS without a semicolon": (
        lambda files: of_sasl(jaas=f'{PLAIN_MODULE} required user_ada="x"'),
        "there is no semicolon at its end",
    ),
    "JAAS without quotes": (
        lambda files: of_sasl(jaas=f"{PLAIN_MODULE} required user_ada=1x;"),
        "the option user_ada has no value, or one that has to stand in quotes",
    ),
    "JAAS without its flag": (
        lambda files: of_sasl(jaas=f'{PLAIN_MODULE} user_ada="x";'),
        "one of required, requisite, sufficient, optional is missing",
    ),
    "JAAS with another module": (
        lambda files: of_sasl(jaas=f'{SCRAM_MODULE} required user_ada="x";'),
        f"another one than that of PLAIN, which is {PLAIN_MODULE}",
    ),
    "a class of Java's for log-ins": (
        lambda files: of_sasl(sasl_server_callback_handler_class="a.B"),
        "CLIENTS cannot have a class of Java's, so remove the key",
    ),
    "brokers by Kerberos": (
        lambda files: of_three(**BY_LOG_IN),
        r"sasl\.mechanism\.inter\.broker\.protocol: .* and GSSAPI .Kerberos. is not there",
    ),
    "brokers as nobody": (
        lambda files: of_three(**BY_LOG_IN, sasl_mechanism_inter_broker_protocol="PLAIN"),
        "options username and password say as whom to log in, and one of them is missing",
    ),
    "brokers by a listener that there is not": (
        lambda files: of_three(inter_broker_listener_name="NODE"),
        r"inter\.broker\.listener\.name: 'NODE' is not allowed; expected .*CLIENTS, NODES",
    ),
    "brokers by two keys": (
        lambda files: of_three(security_inter_broker_protocol="SSL"),
        r"expected either this or security\.inter\.broker\.protocol, not both",
    ),
    "an authorizer of ZooKeeper's times": (
        lambda files: {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        f"{re.escape(STANDARD_AUTHORIZER)} is the one that is there",
    ),
    "super users without a type": (lambda files: {"super.users": "admin"}, "as in User:admin"),
    "super users with commas": (
        lambda files: {"super.users": "User:ada,User:bob"},
        "semicolons between principals, as in User:ada;User:bob",
    ),
    "a listener of nodes that there is not": (
        lambda files: {"penstock.authorizer.node.listeners": "NODE"},
        "expected names of listeners: PLAINTEXT",
    ),
}


def _jceks(files: Files) -> str:
    path = files.folder / "java.jceks"
    path.write_bytes(b"\xce\xce\xce\xce" + bytes(100))
    return str(path)


@pytest.mark.parametrize("name", STARTS)
def test_a_node_does_not_start_and_says_why(name: str, files: Files) -> None:
    settings, why = STARTS[name]
    given = settings(files)
    with pytest.raises((ConfigError, KafkaError, UnprotectedError), match=why) as raised:
        check_keys(BrokerConfig(given) if "process.roles" in given else BrokerConfig.embedded(given))
    told = str(raised.value)
    assert len(told.splitlines()) == 1
    assert "guessed" not in told, "no password is told"


def test_a_key_of_a_listener_that_there_is_not_is_told_with_the_one_that_is_meant(files: Files) -> None:
    config = BrokerConfig.embedded(files.of_tls(**{"listener.name.sll.ssl.client.auth": "required"}))
    assert "did you mean listener.name.ssl.ssl.client.auth?" in "".join(config.warnings())


# What a client is given

CLIENT: Settings = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM_MODULE} required username="ada" password="x";',
}
GIVEN: dict[str, tuple[Settings, str]] = {
    "no mechanism": ({"sasl.mechanism": ""}, "GSSAPI .Kerberos. is not there: take one of PLAIN"),
    "no user": ({"sasl.jaas.config": f'{SCRAM_MODULE} required password="x";'}, "username and password say as whom"),
    "the module of another mechanism": (
        {"sasl.jaas.config": f'{PLAIN_MODULE} required username="ada" password="x";'},
        f"another one than that of SCRAM-SHA-512, which is {SCRAM_MODULE}",
    ),
    "a misspelt key": ({"ssl.trustore.location": "x"}, r"did you mean ssl\.truststore\.location\?"),
    "a protocol that there is not": ({"security.protocol": "SASL-SSL"}, "allowed are PLAINTEXT, SSL"),
    "a trust store that is not there": ({"ssl.truststore.location": "/nowhere"}, "/nowhere cannot be used: No such"),
    "a check that there is not": ({"ssl.endpoint.identification.algorithm": "none"}, "allowed are https, and nothing"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_client_says_what_it_cannot_use(name: str) -> None:
    changes, why = GIVEN[name]
    with pytest.raises((ValueError, ClientError), match=why):
        with_properties(ClientSettings(), CLIENT | changes).security.context()


def test_protocols_are_known_in_small_letters_too() -> None:
    assert with_properties(ClientSettings(), CLIENT | {"security.protocol": "sasl_ssl"}).security_protocol == "SASL_SSL"


def test_there_are_enough_of_them() -> None:
    assert len(STARTS) + len(GIVEN) >= 40
