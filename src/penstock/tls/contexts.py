"""What OpenSSL needs to know for a listener, or for who connects to one, by Kafka's keys.

TLS 1.2 and 1.3 are spoken, without renegotiation and compression. Where the keys name a trust store only its
certificates are trusted; who connects trusts the system's otherwise.
"""

import ssl
from base64 import encodebytes
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.tls import stores
from penstock.tls.errors import TlsConfigError
from penstock.tls.store import Key
from penstock.tls.stores import Settings

CLIENTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
OF_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers; Python has no way to choose among them."""
_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the key and the certificate behind it do not belong together",
    "CA_MD_TOO_WEAK": "a certificate is signed with a hash that is too weak (SHA-1): have it signed anew, with SHA-256",
    "EE_KEY_TOO_SMALL": "the certificate's key is too short: make one of 2,048 bits for RSA, of 256 for EC",
    "CA_KEY_TOO_SMALL": "the key of an authority is too short: have certificates signed by one of 2,048 bits (RSA)",
}
"""What OpenSSL means by its words, where there is a key and a password for it."""


def serving_context(settings: Settings, key: Key | None) -> ssl.SSLContext:
    """For a listener, which needs a key. TlsConfigError."""
    if key is None:
        raise TlsConfigError(stores.KEY_STORE, f"{stores.KEY_STORE} is missing: who listens needs a key")
    clients, trusted = settings.get("ssl.client.auth", "none").strip(), stores.trusted_of(settings)
    if clients not in CLIENTS:
        raise TlsConfigError("ssl.client.auth", f"ssl.client.auth={clients}: allowed are {', '.join(CLIENTS)}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, key, trusted)
    if trusted is None and clients != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = CLIENTS[clients]
    context.num_tickets = 0  # who comes again shows its certificate again
    _restrict(context, settings)
    return context


def asking_context(settings: Settings, key: Key | None) -> ssl.SSLContext:
    """For who connects, with a key or without. TlsConfigError."""
    trusted = stores.trusted_of(settings)
    context = ssl.create_default_context() if trusted is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, key, trusted)
    check = "ssl.endpoint.identification.algorithm"
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip()
    if algorithm.lower() not in ("", "https"):
        raise TlsConfigError(check, f"{check}={algorithm}: allowed are https, and nothing for no check of names")
    context.check_hostname = bool(algorithm)
    _restrict(context, settings)
    return context


def _restrict(context: ssl.SSLContext, settings: Settings) -> None:
    stores.check_types(settings)
    if settings.get("ssl.engine.factory.class"):
        raise TlsConfigError(
            "ssl.engine.factory.class", "ssl.engine.factory.class names a class of Java, which is not there: remove it"
        )
    _load_crls(context, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    versions = _items(settings.get("ssl.enabled.protocols", "")) or list(VERSIONS)
    for version in versions:
        if version not in VERSIONS:
            known = " and ".join(VERSIONS)
            raise TlsConfigError("ssl.enabled.protocols", f"ssl.enabled.protocols has {version}: allowed are {known}")
    suites = _items(settings.get("ssl.cipher.suites", ""))
    if suites:
        versions = _restrict_suites(context, suites, versions)
    context.minimum_version = min(VERSIONS[version] for version in versions)
    context.maximum_version = max(VERSIONS[version] for version in versions)


def _restrict_suites(context: ssl.SSLContext, suites: list[str], versions: list[str]) -> list[str]:
    """The versions that are left."""
    key = "ssl.cipher.suites"
    new = [suite for suite in suites if suite in OF_1_3]
    if new and "TLSv1.3" in versions and set(new) != set(OF_1_3):
        raise TlsConfigError(
            key, f"{key}: the suites of TLS 1.3 are taken together ({', '.join(OF_1_3)}): name all of them or none"
        )
    old = [_openssl_name(suite) for suite in suites if suite not in OF_1_3]
    left = [one for one, named in (("TLSv1.2", old), ("TLSv1.3", new)) if named and one in versions]
    if not left:
        raise TlsConfigError(key, f"{key} has no suite of {', '.join(versions)}")
    if old:
        try:
            context.set_ciphers(":".join(old))
        except ssl.SSLError:
            raise TlsConfigError(key, f"{key} has no suite that is known: {', '.join(suites)}") from None
    return left


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 there; its own names are taken as well."""
    if "_WITH_" not in suite:
        return suite
    exchange, _, rest = suite.removeprefix("TLS_").partition("_WITH_")
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    rest = rest.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (rest if exchange == "RSA" else f"{exchange}_{rest}").replace("_", "-")


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _load(context: ssl.SSLContext, key: Key | None, trusted: str | None) -> None:
    if key is not None:
        _load_key(context, key)
    if trusted is not None:
        _load_trusted(context, trusted)


def _load_crls(context: ssl.SSLContext, settings: Settings) -> None:
    """From then on a certificate without a list of its authority's is refused, and by a list that is too old."""
    lists = stores.crls_of(settings)
    if not lists:
        return
    pem = b"".join(b"-----BEGIN X509 CRL-----\n%b-----END X509 CRL-----\n" % encodebytes(one) for one in lists)
    try:
        with TemporaryDirectory() as folder:
            file = Path(folder, "crl.pem")
            file.write_bytes(pem)
            context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise TlsConfigError(stores.CRL, f"the lists of {stores.CRL} cannot be used: {error}") from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _load_key(context: ssl.SSLContext, key: Key) -> None:
    """Python loads keys from files only."""
    try:
        with TemporaryDirectory() as folder:  # other users may not read it
            file = Path(folder, "key.pem")
            file.write_text(key.pem, encoding="ascii")
            context.load_cert_chain(file, password=key.password)
    except (OSError, ValueError) as error:
        text = f"the key of ssl.keystore cannot be used: {_why_not(key, error)}"
        raise TlsConfigError(stores.KEY_STORE, text) from error


def _load_trusted(context: ssl.SSLContext, trusted: str) -> None:
    try:
        if CERTIFICATE not in trusted:
            raise ValueError("there is no certificate in it")
        context.load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        text = f"the certificates of ssl.truststore cannot be used: {error}"
        raise TlsConfigError(stores.TRUST_STORE, text) from error


def _why_not(key: Key, error: Exception) -> str:
    """OpenSSL says hardly more than that it cannot; where there is no password it would ask at the terminal."""
    if "PRIVATE KEY-----" not in key.pem:
        return "there is no private key in it: put it in front of the certificate"
    if CERTIFICATE not in key.pem:
        return "there is no certificate in it: put it behind the key, with those between it and the authority"
    if (why := _REASONS.get(getattr(error, "reason", None) or "")) is not None:
        return why
    if "ENCRYPTED" in key.pem:
        return "ssl.key.password is wrong" if key.password else "it is encrypted, and ssl.key.password is missing"
    return f"it is damaged ({getattr(error, 'strerror', None) or error})"
