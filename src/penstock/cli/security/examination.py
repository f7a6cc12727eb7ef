"""How far a client comes at one address, stage by stage, and why no further.

| stage    | what is tried                                                                  |
| -------- | ------------------------------------------------------------------------------ |
| SETTINGS | the client's keys, stores and passwords can be used                            |
| DNS      | the name stands for an address                                                 |
| TCP      | something takes connections there                                              |
| TLS      | the handshake: chain, names, dates, what both sides show                       |
| KAFKA    | it answers as a broker does                                                    |
| SASL     | the log-in                                                                     |

The client's own code does it, on a connection for each stage. What is found beside it (who shows which certificate,
whether the listener speaks another protocol) is looked up only to name the cause.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

from penstock.client.blocking import reason_of
from penstock.client.blocking.connection import BlockingConnection
from penstock.client.credentials import Credentials, TokenCredentials
from penstock.client.errors import AuthenticationFailedError, ClientError
from penstock.client.security import WITH_SASL, WITH_TLS
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.sasl.oauthbearer import REFUSED
from penstock.tls.certificates import begins_s, expires_s, issuer_of, names_in, subject_of
from penstock.tls.errors import TlsConfigError
from penstock.tls.shown_names import certificate_at
from penstock.tls.stores import certificate_of, certificates_in, key_of, trusted_of

LIMIT_MS: Final = 5_000
"""For each answer."""
WRONG: Final = "Authentication failed"
"""So a broker says that the user or the password is wrong, and not which."""
Found = tuple[str, str]
"""A stage, and what was found there."""


class EndError(Exception):
    """The way ends in this stage; the text is one line that names cause and cure."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(text)
        self.stage = stage


class Examination:
    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self._address = address
        self._security = settings.security
        self._protocol = settings.security_protocol
        self._has_tls = self._protocol in WITH_TLS
        self._has_sasl = self._protocol in WITH_SASL

    @property
    def principal(self) -> str:
        """Who the client is to access rules, if nothing renames it; words in <> where the broker alone knows."""
        if self._has_sasl:
            return f"User:{_name(self._security.credentials)}"
        own = self._own_certificate() if self._has_tls else None
        return "User:ANONYMOUS" if own is None else f"User:{subject_of(own)}"

    def connect(self) -> BlockingConnection:
        """As the client does. OSError, ClientError."""
        return self._connected(log_in=self._has_sasl)

    def stages(self) -> Iterator[Found]:
        """What was found, as far as the client comes. Raises EndError."""
        yield from self._settings()
        hosts = self._hosts()
        yield "DNS", ", ".join(hosts)
        yield "TCP", self._taken(hosts)
        if self._has_tls:
            yield "TLS", self._secured()
        yield "KAFKA", self._answered()
        if self._has_sasl:
            yield "SASL", self._logged_in()

    def _settings(self) -> Iterator[Found]:
        try:
            if self._has_tls:
                self._security.context()
            if self._has_sasl:
                self._security.check_credentials()
            own = self._own_certificate() if self._has_tls else None
        except (ClientError, TlsConfigError, ValueError) as error:
            raise EndError("SETTINGS", str(error)) from None
        if own is not None:
            yield "SETTINGS", f"shows the certificate of {subject_of(own)}, signed by {issuer_of(own)}"
            self._check_dates("SETTINGS", "our own certificate", own)

    def _hosts(self) -> list[str]:
        host, port = self._address
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            text = f"nobody knows the name {host} ({error.strerror}): correct the address, or make the name known"
            raise EndError("DNS", text) from None
        return list(dict.fromkeys(str(place[0]) for *_, place in found))

    def _taken(self, hosts: list[str]) -> str:
        failures = []
        for host in hosts:
            try:
                with socket.create_connection((host, self._address.port), LIMIT_MS / 1000):
                    return f"{host} takes connections at port {self._address.port}"
            except OSError as error:
                failures.append(f"{host} ({'no answer' if isinstance(error, TimeoutError) else reason_of(error)})")
        cure = "is a node running there, is this its port, and does no firewall stand between?"
        raise EndError("TCP", f"nothing takes connections at {', '.join(failures)}: {cure}")

    def _secured(self) -> str:
        """A server's refusal of what we show comes with its first answer."""
        try:
            with closing(self._connected(log_in=False)):
                return self._shown_there()
        except OSError as error:
            raise EndError("TLS", self._why_not_secured(reason_of(error))) from None
        except (ClientError, KafkaError, DecodeError) as error:
            raise EndError("KAFKA", str(error)) from None

    def _shown_there(self) -> str:
        shown = certificate_at(*self._address)
        if shown is None:
            return "the handshake is done"
        names = ", ".join(names_in(shown)) or "nobody"
        return f"{subject_of(shown)} for {names}, until {_day(expires_s(shown))}, signed by {issuer_of(shown)}"

    def _why_not_secured(self, fault: str) -> str:
        """With what can be found out about the certificate there."""
        shown = certificate_at(*self._address)
        if shown is None:
            if self._speaks_in_the_clear():
                plain = "SASL_PLAINTEXT" if self._has_sasl else "PLAINTEXT"
                return f"the listener speaks in the clear: set security.protocol={plain}, or take another port"
            return fault
        self._check_dates("TLS", f"the certificate of {subject_of(shown)}", shown)
        if "not in our ssl.truststore" in fault or "signed by itself" in fault:
            trusted = ", ".join(self._trusted()) or "nobody"
            return f"{fault}; it is signed by {issuer_of(shown)}, and trusted are: {trusted}"
        return fault

    def _check_dates(self, stage: str, whose: str, certificate: bytes) -> None:
        now_s = time.time()
        if expires_s(certificate) <= now_s:
            when = f"has expired on {_day(expires_s(certificate))}"
        elif begins_s(certificate) > now_s:
            when = f"holds only from {_day(begins_s(certificate))} on"
        else:
            return
        raise EndError(stage, f"{whose} {when}, and the clock here says {_day(now_s)}: renew it, or set the clock")

    def _answered(self) -> str:
        try:
            with closing(self._connected(log_in=False)) as connection:
                if not self._has_sasl:
                    self._check_that_nobody_logs_in(connection)
        except (OSError, DecodeError) as error:
            if not self._has_tls and certificate_at(*self._address) is not None:
                secure = "SASL_SSL" if self._has_sasl else "SSL, or SASL_SSL where clients log in"
                text = f"the listener speaks TLS: set security.protocol={secure}, or take another port"
                raise EndError("KAFKA", text) from None
            raise EndError("KAFKA", reason_of(error) if isinstance(error, OSError) else str(error)) from None
        except (ClientError, KafkaError) as error:
            raise EndError("KAFKA", str(error)) from None
        return "answers as a broker does"

    def _check_that_nobody_logs_in(self, connection: BlockingConnection) -> None:
        """A listener with SASL names its mechanisms to who asks for one that there is not."""
        request = SaslHandshakeRequest(mechanism="none")
        answer = connection.request(ApiKey.SASL_HANDSHAKE, request, SaslHandshakeResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            protocol, mechanisms = ("SASL_SSL" if self._has_tls else "SASL_PLAINTEXT"), ", ".join(answer.mechanisms)
            raise EndError(
                "SASL",
                f"clients log in there: set security.protocol={protocol} and sasl.mechanism, one of {mechanisms}",
            )

    def _logged_in(self) -> str:
        credentials = self._security.credentials
        try:
            with closing(self.connect()):
                return f"{credentials.user} logs in with {credentials.mechanism}"
        except OSError as error:
            raise EndError("SASL", reason_of(error)) from None
        except AuthenticationFailedError as error:
            raise EndError("SASL", f"{error}{_cure(credentials, str(error))}") from None
        except (ClientError, KafkaError, DecodeError) as error:
            raise EndError("SASL", str(error)) from None

    def _connected(self, *, log_in: bool) -> BlockingConnection:
        return BlockingConnection(
            self._address,
            client_id="penstock-doctor",
            connect_timeout_ms=LIMIT_MS,
            request_timeout_ms=LIMIT_MS,
            tls=self._security.context() if self._has_tls else None,
            log_in=self._security.steps if log_in else None,
        )

    def _speaks_in_the_clear(self) -> bool:
        with suppress(OSError, ClientError, KafkaError, DecodeError):
            BlockingConnection(
                self._address, client_id="penstock-doctor", connect_timeout_ms=LIMIT_MS, request_timeout_ms=LIMIT_MS
            ).close()
            return True
        return False

    def _own_certificate(self) -> bytes | None:
        key = key_of(self._security.properties)
        return None if key is None else certificate_of(key)

    def _trusted(self) -> list[str]:
        pem = trusted_of(self._security.properties)
        if pem is None:
            return [f"those of the system ({ssl.get_default_verify_paths().cafile or 'none'})"]
        return [subject_of(certificate) for certificate in certificates_in(pem)]


def _name(credentials: Credentials | TokenCredentials) -> str:
    if isinstance(credentials, TokenCredentials):
        return "<whom the token names>"
    return "<the token's owner>" if credentials.by_token else credentials.user


def _cure(credentials: Credentials | TokenCredentials, told: str) -> str:
    if isinstance(credentials, TokenCredentials):
        return "; the broker's log says why" if REFUSED in told else ""
    if WRONG not in told:
        return ""
    if credentials.by_token:
        return "; `penstock delegation-tokens --describe` by its owner shows whether the token is there, and holds"
    return f"; `penstock users --list` shows whether {credentials.user} is there"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
