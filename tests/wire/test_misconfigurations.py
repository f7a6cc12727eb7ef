"""What people get wrong about security, and what shows only when both meet: each is told with cause and cure.

The client's error, the node's log and `penstock security doctor` each have their word. What shows before is in
tests/unit/node/assembly/test_misconfigurations.py.
"""

from __future__ import annotations

import logging
import queue
import re
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.wrong_stores import Files, Settings

from penstock.cli.security.examination import EndError, Examination
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, start_node
from penstock.node.serving import refusals
from penstock.protocol.address import parse_address
from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.testing import thread_node
from penstock.testing.thread_node import ThreadNode

pytestmark = pytest.mark.timeout(60)
CLIENT: Settings = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM_MODULE} required username="ada" password="x";',
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("stores"))


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
    assert len(MEETINGS) >= 20
