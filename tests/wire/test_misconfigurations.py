"""What people get wrong about security, and what they are told: each line names the cause and the cure.

Three tables: what a node is started with, what a client is given, and what only shows when both meet. There the
client's error, the node's log and `penstock security doctor` each have their word.
"""

from __future__ import annotations

import logging
import queue
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.certificates import Authority

from penstock.cli.security.examination import EndError, Examination
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.node.assembly.protection import UnprotectedError, check_keys
from penstock.node.assembly.start import RunningNode, start_node
from penstock.node.serving import refusals
from penstock.protocol.address import parse_address
from penstock.protocol.errors import KafkaError
from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.testing import thread_node
from penstock.testing.thread_node import ThreadNode

pytestmark = pytest.mark.timeout(60)
Settings = dict[str, str]


class Files:
    """Keys and stores, right and wrong ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.node = self.authority.signs("node")
        self.ada = self.authority.signs("ada")
        self.late = self.authority.signs("late", days=-1)
        self.early = self.authority.signs("early", begins=3)
        self.elsewhere = self.authority.signs("elsewhere", hosts=("broker.example", "10.1.2.3"))
        self.foreign = self.stranger.signs("ada", file="foreign")

    def holding(self, text: str) -> str:
        path = self.folder / f"{abs(hash(text))}.pem"
        path.write_text(text)
        return str(path)

    def of_tls(self, **changes: str) -> Settings:
        """A node with a listener of TLS."""
        right = {"listeners": "SSL://127.0.0.1:0", **self.authority.keys_of(self.node)}
        return right | {key.replace("_", "."): value for key, value in changes.items()}


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
    "a key store of Java's own kind": (
        lambda files: files.of_tls(ssl_keystore_location=_jks(files)),
        r"Java's own kind \(JKS\), which is not read; make it PKCS12: keytool -importkeystore",
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
        "GSSAPI is not there yet: take one of PLAIN",
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
        r"sasl\.mechanism\.inter\.broker\.protocol: .* and GSSAPI is not there yet",
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


def _jks(files: Files) -> str:
    path = files.folder / "java.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
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
    "no mechanism": ({"sasl.mechanism": ""}, "GSSAPI is not there yet: take one of PLAIN"),
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


# What only shows when both meet

LISTENERS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "RENAMED": "SSL",
    "NEW": "SSL",
    "LATE": "SSL",
    "EARLY": "SSL",
    "ELSEWHERE": "SSL",
    "PLAINTEXT": "PLAINTEXT",
    "SAFE": "SASL_SSL",
    "NAMED": "SASL_PLAINTEXT",
}


class Meeting:
    """A node in a thread, and what it logs about those that it refuses."""

    def __init__(self, files: Files, ports: dict[str, int]) -> None:
        self.files = files
        self._ports = ports
        self._said: queue.Queue[str] = queue.Queue()

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def said(self, listener: str, pattern: str) -> str:
        """Wait for the line in the node's log about this listener."""
        wanted = re.compile(rf"listener {listener}\): closed: .*({pattern})")
        while not wanted.search(line := self._said.get(timeout=20)):
            pass
        return line

    def take(self, record: logging.LogRecord) -> bool:
        self._said.put(record.getMessage())
        return True

    def given(self, wrong: Settings) -> Settings:
        """A client's properties; what is in capitals is a file."""
        found = {name: getattr(self.files, name.lower()) for name in ("ADA", "LATE", "EARLY", "FOREIGN")}
        authorities = {"STRANGER": self.files.stranger.certificate_file}
        stores = {name: str(holder.pem) for name, holder in found.items()} | {
            name: str(path) for name, path in authorities.items()
        }
        right = {"security.protocol": "SSL", "ssl.truststore.location": str(self.files.authority.certificate_file)}
        return {key: stores.get(text, text) for key, text in (right | wrong).items() if text}


@pytest.fixture(scope="module")
def meeting(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meeting]:
    user = f'{PLAIN_MODULE} required user_ada="x";'
    settings = files.authority.keys_of(files.node) | {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.renamed.ssl.client.auth": "required",
        "listener.name.renamed.ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/",
        "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
        "listener.name.late.ssl.keystore.location": str(files.late.pem),
        "listener.name.early.ssl.keystore.location": str(files.early.pem),
        "listener.name.elsewhere.ssl.keystore.location": str(files.elsewhere.pem),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": user,
        "listener.name.named.plain.sasl.jaas.config": user,
        "log.dir": str(tmp_path_factory.mktemp("meeting") / "data"),
    }
    nodes: list[RunningNode] = []

    async def start(config: BrokerConfig) -> RunningNode:
        nodes.append(await start_node(config))
        return nodes[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "QUIET_S", 0.0)  # each is told
        patch.setattr(thread_node, "start_node", start)
        node = ThreadNode(settings)
        met = Meeting(files, {endpoint.listener: endpoint.port for endpoint in nodes[0].endpoints})
        refusals.logger.addFilter(met.take)
        yield met
        refusals.logger.removeFilter(met.take)
        node.stop()


USER: Settings = {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "x"}
SAFE: Settings = {"security.protocol": "SASL_SSL", **USER}
Row = tuple[str, Settings, str, str, str]
"""The listener, what is wrong, the client's words, the node's, and where the doctor ends with which words."""
MEETINGS: dict[str, Row] = {
    "a plain client at TLS": (
        "SSL",
        {"security.protocol": "PLAINTEXT", "ssl.truststore.location": ""},
        r"security\.protocol",
        r"the client does not speak TLS, .*it needs another security\.protocol, or port",
        r"KAFKA the listener speaks TLS: set security\.protocol=SSL",
    ),
    "TLS at a plain listener": (
        "PLAINTEXT",
        {},
        r"another security\.protocol",
        r"the client speaks TLS, and the listener does not: security\.protocol=PLAINTEXT",
        r"TLS the listener speaks in the clear: set security\.protocol=PLAINTEXT",
    ),
    "no certificate where one is required": (
        "MUTUAL",
        {},
        r"set ssl\.keystore",
        r"the client shows no certificate, and ssl\.client\.auth is required: it needs ssl\.keystore",
        r"TLS .*set ssl\.keystore",
    ),
    "a client's certificate that has expired": (
        "MUTUAL",
        {"ssl.keystore.location": "LATE"},
        "our certificate has expired",
        "the peer's certificate has expired: renew it",
        "SETTINGS our own certificate has expired on .*: renew it, or set the clock",
    ),
    "a client's certificate of tomorrow": (
        "MUTUAL",
        {"ssl.keystore.location": "EARLY"},
        "the peer refuses our certificate",
        "the peer's certificate does not hold yet: is a clock wrong?",
        "SETTINGS our own certificate holds only from .* on, and the clock here says",
    ),
    "a client's certificate by a stranger": (
        "MUTUAL",
        {"ssl.keystore.location": "FOREIGN"},
        r"does not trust who signed our certificate: its ssl\.truststore lacks that authority",
        r"signed by an authority that is not in our ssl\.truststore: add it there",
        "TLS the peer does not trust who signed our certificate",
    ),
    "a certificate that no rule names": (
        "RENAMED",
        {"ssl.keystore.location": "ADA"},
        r"closed the connection: does it listen for another security\.protocol",
        r"no rule of ssl\.principal\.mapping\.rules fits the subject .*, CN=ada: DEFAULT at their end",
        "TLS .*closed the connection",
    ),
    "an authority that the client does not know": (
        "SSL",
        {"ssl.truststore.location": "STRANGER"},
        r"authority that is not in our ssl\.truststore",
        r"does not trust who signed our certificate: its ssl\.truststore lacks that authority",
        "TLS .*it is signed by CN=authority, and trusted are: CN=stranger",
    ),
    "no trust store at all": (
        "SSL",
        {"ssl.truststore.location": ""},
        r"not in our ssl\.truststore",
        "does not trust who signed our certificate",
        "TLS .*trusted are: those of the system",
    ),
    "a node's certificate that has expired": (
        "LATE",
        {},
        "the peer's certificate has expired",
        r"the peer says that our certificate has expired \(or its clock is wrong\)",
        "TLS the certificate of CN=late has expired on .*: renew it, or set the clock",
    ),
    "a node's certificate of tomorrow": (
        "EARLY",
        {},
        "the peer's certificate does not hold yet: is a clock wrong?",
        "refuses our certificate: it names other hosts or does not hold yet",
        "TLS the certificate of CN=early holds only from .* on, and the clock here says",
    ),
    "a certificate for others": (
        "ELSEWHERE",
        {},
        "not valid for '127.0.0.1'; it names broker.example, 10.1.2.3",
        "refuses our certificate: it names other hosts or does not hold yet",
        "TLS .*it names broker.example, 10.1.2.3",
    ),
    "another version of TLS": (
        "NEW",
        {"ssl.enabled.protocols": "TLSv1.2"},
        r"see ssl\.enabled\.protocols",
        r"see ssl\.enabled\.protocols",
        r"TLS .*see ssl\.enabled\.protocols",
    ),
    "no suite that both know": (
        "SSL",
        {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"},
        "accepts none of our versions, suites or certificates",
        r"no cipher suite that both sides know: see ssl\.cipher\.suites",
        "TLS .*none of our versions, suites or certificates",
    ),
    "a mechanism that is not enabled": (
        "SAFE",
        CLIENT,
        r"does not enable SCRAM-SHA-512: set sasl\.mechanism to one of PLAIN",
        "the mechanism 'SCRAM-SHA-512' is not enabled, but PLAIN",
        r"SASL .*set sasl\.mechanism to one of PLAIN",
    ),
    "a user that there is not": (
        "SAFE",
        SAFE | {"sasl.username": "eve"},
        "refuses the log-in of eve by PLAIN: .*the user name or the password is wrong",
        "wrong password of the user 'eve', or there is no such user",
        "SASL .*`penstock users --list` shows whether eve is there",
    ),
    "a wrong password": (
        "SAFE",
        SAFE | {"sasl.password": "guessed"},
        "refuses the log-in of ada by PLAIN: .*the user name or the password is wrong",
        "wrong password of the user 'ada', or there is no such user",
        "SASL .*the user name or the password is wrong",
    ),
    "a log-in where nobody logs in": (
        "SSL",
        SAFE,
        "nobody logs in at .*, which is a listener without SASL: set security.protocol",
        "",
        r"SASL nobody logs in at .*set security\.protocol",
    ),
    "TLS without the log-in": (
        "SAFE",
        {},
        r"if clients have to log in there, set security\.protocol and sasl\.mechanism",
        "before the log-in: does the client have another security.protocol than this listener?",
        r"SASL clients log in there: set security\.protocol=SASL_SSL and sasl\.mechanism, one of PLAIN",
    ),
    "no log-in where all log in": (
        "NAMED",
        {"security.protocol": "PLAINTEXT", "ssl.truststore.location": ""},
        r"if clients have to log in there, set security\.protocol and sasl\.mechanism",
        "before the log-in: does the client have another security.protocol than this listener?",
        r"SASL clients log in there: set security\.protocol=SASL_PLAINTEXT and sasl\.mechanism, one of PLAIN",
    ),
    "a log-in in the clear at TLS": (
        "SAFE",
        SAFE | {"security.protocol": "SASL_PLAINTEXT"},
        r"security\.protocol",
        "the client does not speak TLS",
        r"KAFKA the listener speaks TLS: set security\.protocol=SASL_SSL",
    ),
    "a log-in over TLS in the clear": (
        "NAMED",
        SAFE,
        r"security\.protocol",
        "the client speaks TLS, and the listener does not",
        r"TLS the listener speaks in the clear: set security\.protocol=SASL_PLAINTEXT",
    ),
}


def client_says(address: str, settings: ClientSettings) -> str:
    wanted = ClusterSettings(
        (parse_address(address),),
        connect_timeout_ms=5_000,
        request_timeout_ms=5_000,
        retry_timeout_ms=0,
        security_protocol=settings.security_protocol,
        security=settings.security,
    )
    with closing(BlockingCluster(wanted)) as cluster, pytest.raises((OSError, ClientError)) as raised:
        cluster.all_topics()
    return str(raised.value)


@pytest.mark.parametrize("name", MEETINGS)
def test_both_sides_and_the_doctor_say_why(name: str, meeting: Meeting) -> None:
    listener, wrong, to_client, in_log, to_doctor = MEETINGS[name]
    settings = with_properties(ClientSettings(), meeting.given(wrong))
    told = client_says(meeting.address(listener), settings)
    assert re.search(to_client, told), told
    assert len(told.splitlines()) == 1
    assert "guessed" not in told
    if in_log:
        assert "guessed" not in meeting.said(listener, in_log)
    with pytest.raises(EndError) as ended:
        list(Examination(parse_address(meeting.address(listener)), settings).stages())
    found = f"{ended.value.stage} {ended.value}"
    assert re.search(to_doctor, found), found
    assert len(found.splitlines()) == 1


def test_who_does_all_right_goes_all_the_way(meeting: Meeting) -> None:
    for listener, right in (("MUTUAL", {"ssl.keystore.location": "ADA"}), ("SAFE", SAFE)):
        settings = with_properties(ClientSettings(), meeting.given(right))
        stages = [stage for stage, _ in Examination(parse_address(meeting.address(listener)), settings).stages()]
        assert stages[-1] == ("SASL" if listener == "SAFE" else "KAFKA")


def test_a_browser_is_told_apart(meeting: Meeting) -> None:
    host, port = parse_address(meeting.address("PLAINTEXT"))
    with socket.create_connection((host, port), 20) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert browser.recv(100) == b""
    meeting.said("PLAINTEXT", "the client speaks HTTP, and the listener Kafka's protocol: another port is needed")


def test_there_are_enough_of_them() -> None:
    assert len(STARTS) + len(GIVEN) + len(MEETINGS) >= 60
