"""How far an examination comes at one address, and what it names as the cause, over connections whose ends are said."""

import socket
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.cli.security import examination
from penstock.cli.security.examination import EndError, Examination
from penstock.client.errors import AuthenticationFailedError, ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_handshake import SaslHandshakeResponse

AT = Address("h", 9)
NOW_S = 1_800_000_000.0
LOGIN = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ada", "sasl.password": "x"}


class Net:
    """What a name stands for, which of that take connections, and how connections of Kafka's protocol end."""

    def __init__(self) -> None:
        self.hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
        self.closed: dict[str, OSError] = {}
        self.plain: Exception | None = None
        self.secured: Exception | None = None
        self.log_in: Exception | None = None
        self.shown: bytes | None = None
        self.handshake = SaslHandshakeResponse()
        self.opened: list[tuple[bool, bool]] = []
        """Whether with TLS, and whether with a log-in."""

    def getaddrinfo(self, host: str, port: int, type: int) -> list[tuple[Any, ...]]:  # noqa: A002  # as it is called
        assert (host, port, type) == ("h", 9, socket.SOCK_STREAM)
        if not self.hosts:
            raise OSError(-2, "Name or service not known")
        return [(None, None, None, "", (one, port)) for one in self.hosts]

    def create_connection(self, where: tuple[str, int], seconds: float) -> Any:
        assert (where[1], seconds) == (9, 5.0)
        if where[0] in self.closed:
            raise self.closed[where[0]]
        return socket.socket()

    def connection(self, address: Address, **more: Any) -> "Connection":
        has_tls, logs_in = more.get("tls") is not None, more.get("log_in") is not None
        self.opened.append((has_tls, logs_in))
        for error in (self.secured if has_tls else self.plain, self.log_in if logs_in else None):
            if error is not None:
                raise error
        return Connection(self)


class Connection:
    def __init__(self, net: Net) -> None:
        self._net = net

    def request(self, *_: object) -> SaslHandshakeResponse:
        return self._net.handshake

    def close(self) -> None:
        pass


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    found = Net()
    fakes = {"getaddrinfo": found.getaddrinfo, "create_connection": found.create_connection}
    monkeypatch.setattr(examination, "socket", stand_in(socket, **fakes))
    monkeypatch.setattr(examination, "time", stand_in(time, time=lambda: NOW_S))
    monkeypatch.setattr(examination, "BlockingConnection", found.connection)
    monkeypatch.setattr(examination, "certificate_at", lambda *_: found.shown)
    named = {"subject_of": "CN=node", "issuer_of": "CN=authority", "names_in": ["h", "10.0.0.1"]}
    for name, value in named.items():
        monkeypatch.setattr(examination, name, lambda _, value=value: value)
    monkeypatch.setattr(examination, "begins_s", lambda dates: float(dates.split()[0]))
    monkeypatch.setattr(examination, "expires_s", lambda dates: float(dates.split()[1]))
    return found


VALID = b"1700000000 1900000000"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def examined(protocol: str) -> Examination:
    properties = {"security.protocol": protocol, **(LOGIN if "SASL" in protocol else {})}
    return Examination(AT, with_properties(ClientSettings(), properties))


def stages(protocol: str) -> list[tuple[str, str]]:
    return list(examined(protocol).stages())


def end(protocol: str) -> tuple[str, str]:
    with pytest.raises(EndError) as raised:
        stages(protocol)
    return raised.value.stage, str(raised.value)


DNS = ("DNS", "10.0.0.1, 10.0.0.2")
TCP = ("TCP", "10.0.0.1 takes connections at port 9")
TLS = ("TLS", "CN=node for h, 10.0.0.1, until 2030-03-17 17:46 UTC, signed by CN=authority")
KAFKA = ("KAFKA", "answers as a broker does")
SASL = ("SASL", "ada logs in with SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("protocol", "more", "opened"),
    [
        ("PLAINTEXT", [KAFKA], [(False, False)]),
        ("SSL", [TLS, KAFKA], [(True, False)] * 2),
        ("SASL_PLAINTEXT", [KAFKA, SASL], [(False, False), (False, True)]),
        ("SASL_SSL", [TLS, KAFKA, SASL], [(True, False), (True, False), (True, True)]),
    ],
)
def test_the_whole_way(protocol: str, more: list[tuple[str, str]], opened: list[Any], net: Net) -> None:
    net.shown = VALID
    assert stages(protocol) == [DNS, TCP, *more]
    assert net.opened == opened


def test_a_certificate_that_is_not_shown_again(net: Net) -> None:
    assert stages("SSL")[2] == ("TLS", "the handshake is done")


def test_a_name_that_nobody_knows(net: Net) -> None:
    net.hosts = []
    words = "nobody knows the name h (Name or service not known): correct the address, or make the name known"
    assert end("PLAINTEXT") == ("DNS", words)


def test_one_address_is_enough(net: Net) -> None:
    net.closed = {"10.0.0.1": ConnectionRefusedError(111, "Connection refused")}
    assert stages("PLAINTEXT")[1] == ("TCP", "10.0.0.2 takes connections at port 9")


def test_nothing_takes_connections(net: Net) -> None:
    net.closed = {"10.0.0.1": ConnectionRefusedError(111, "Connection refused"), "10.0.0.2": TimeoutError()}
    cure = "is a node running there, is this its port, and does no firewall stand between?"
    stage, text = end("PLAINTEXT")
    assert stage == "TCP"
    assert text.startswith("nothing takes connections at 10.0.0.1 (")
    assert text.endswith(f"), 10.0.0.2 (no answer): {cure}")


# -- TLS --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "plain"), [("SSL", "PLAINTEXT"), ("SASL_SSL", "SASL_PLAINTEXT")])
def test_a_listener_that_speaks_in_the_clear(protocol: str, plain: str, net: Net) -> None:
    net.secured = OSError("odd record")
    words = f"the listener speaks in the clear: set security.protocol={plain}, or take another port"
    assert end(protocol) == ("TLS", words)


@pytest.mark.parametrize("plain", [OSError("reset"), ClientError("reset")])
def test_one_that_speaks_neither(plain: Exception, net: Net) -> None:
    net.secured, net.plain = OSError("odd record"), plain
    assert end("SSL") == ("TLS", "odd record")


@pytest.mark.parametrize(
    ("dates", "words"),
    [
        (b"1700000000 1800000000", "has expired on 2027-01-15 08:00 UTC"),
        (b"1700000000 1799999999", "has expired on 2027-01-15 07:59 UTC"),
        (b"1800000060 1900000000", "holds only from 2027-01-15 08:01 UTC on"),
    ],
)
def test_dates_of_the_certificate_there(dates: bytes, words: str, net: Net) -> None:
    net.secured, net.shown = OSError("it has expired"), dates
    clock = "and the clock here says 2027-01-15 08:00 UTC: renew it, or set the clock"
    assert end("SSL") == ("TLS", f"the certificate of CN=node {words}, {clock}")


@pytest.mark.parametrize("dates", [b"1800000000 1900000000", b"1700000000 1800000001"])
def test_dates_that_hold(dates: bytes, net: Net) -> None:
    net.secured, net.shown = OSError("no"), dates
    assert end("SSL") == ("TLS", "no")


@pytest.mark.parametrize("fault", ["it is not in our ssl.truststore", "it is signed by itself"])
def test_who_signed_and_who_is_trusted(fault: str, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    net.secured, net.shown = OSError(fault), VALID
    monkeypatch.setattr(examination, "trusted_of", lambda _: b"pem")
    for certificates, trusted in (([], "nobody"), ([b"1", b"2"], "CN=node, CN=node")):
        monkeypatch.setattr(examination, "certificates_in", lambda _, them=certificates: them)
        words = f"{fault}; it is signed by CN=authority, and trusted are: {trusted}"
        assert end("SSL") == ("TLS", words)
    monkeypatch.setattr(examination, "trusted_of", lambda _: None)
    assert "and trusted are: those of the system (" in end("SSL")[1]


def test_what_is_no_fault_of_tls(net: Net) -> None:
    net.secured = ClientError("no broker")
    assert end("SSL") == ("KAFKA", "no broker")


# -- Kafka's protocol, and the log-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "secure"), [("PLAINTEXT", "SSL, or SASL_SSL where clients log in"), ("SASL_PLAINTEXT", "SASL_SSL")]
)
def test_a_listener_that_speaks_tls(protocol: str, secure: str, net: Net) -> None:
    net.plain, net.shown = OSError("reset"), VALID
    words = f"the listener speaks TLS: set security.protocol={secure}, or take another port"
    assert end(protocol) == ("KAFKA", words)


def test_one_that_is_no_broker(net: Net) -> None:
    net.plain = OSError("reset")
    assert end("PLAINTEXT") == ("KAFKA", "reset")
    net.plain = ClientError("odd")
    assert end("PLAINTEXT") == ("KAFKA", "odd")


def mechanisms(*names: str, code: int = ErrorCode.UNSUPPORTED_SASL_MECHANISM) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=list(names))


@pytest.mark.parametrize(("protocol", "needed"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
def test_a_listener_where_clients_log_in(protocol: str, needed: str, net: Net) -> None:
    net.shown, net.handshake = VALID, mechanisms("PLAIN", "OTHER")
    words = f"clients log in there: set security.protocol={needed} and sasl.mechanism, one of PLAIN, OTHER"
    assert end(protocol) == ("SASL", words)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_who_logs_in_does_not_ask_whether_one_has_to(protocol: str, net: Net) -> None:
    net.shown, net.handshake = VALID, mechanisms("PLAIN")
    assert stages(protocol)[-1] == SASL


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("reset"), "reset"),
        (ClientError("odd"), "odd"),
        (
            AuthenticationFailedError("Authentication failed: no"),
            "Authentication failed: no; `penstock users --list` shows whether ada is there",
        ),
        (AuthenticationFailedError("no such mechanism"), "no such mechanism"),
    ],
)
def test_a_log_in_that_fails(error: Exception, text: str, net: Net) -> None:
    net.log_in = error
    assert end("SASL_PLAINTEXT") == ("SASL", text)


def test_keys_that_cannot_be_used(net: Net) -> None:
    broken = with_properties(ClientSettings(), {"security.protocol": "SSL", "ssl.truststore.type": "nothing"})
    with pytest.raises(EndError) as raised:
        list(Examination(AT, broken).stages())
    assert raised.value.stage == "SETTINGS"


def test_our_own_certificate_comes_first(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    net.shown = VALID
    dates: Sequence[bytes] = [VALID, b"1700000000 1800000000"]
    monkeypatch.setattr(examination, "key_of", lambda _: SimpleNamespace())
    monkeypatch.setattr(examination, "certificate_of", lambda _: dates[0])
    assert stages("SSL")[0] == ("SETTINGS", "shows the certificate of CN=node, signed by CN=authority")
    assert examined("SSL").principal == "User:CN=node"
    assert examined("PLAINTEXT").principal == "User:ANONYMOUS"
    monkeypatch.setattr(examination, "certificate_of", lambda _: dates[1])
    stage, text = end("SSL")
    assert (stage, text.split(",")[0]) == ("SETTINGS", "our own certificate has expired on 2027-01-15 08:00 UTC")
    assert stages("PLAINTEXT")[0] == DNS
