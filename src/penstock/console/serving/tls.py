"""TLS of the console's own, from a certificate and a key in files."""

import ssl
from pathlib import Path

from penstock.console.serving.settings import ConsoleSettings, NotServedError


def tls_of(settings: ConsoleSettings) -> ssl.SSLContext | None:
    """TLS 1.2 and 1.3; None where there is to be none. NotServedError names the file that cannot be used."""
    certificate, key = settings.certificate, settings.key
    if certificate is None or key is None:
        return None
    if (problem := why_unsafe(key)) is not None:
        raise NotServedError(f"--key {key}: {problem}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:  # also what OpenSSL says
        what = "they are no certificate and its key in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise NotServedError(f"--certificate {certificate}, --key {key}: {what}") from None
    return context


def why_unsafe(file: Path) -> str | None:
    """Why what is secret should not stand in this file, with the command that helps."""
    try:
        is_open = file.stat().st_mode & 0o007
    except OSError:
        return None  # who reads it says why
    return f"everybody on this machine may read it: chmod o= {file}" if is_open else None


def _no_password() -> str:
    raise NotServedError("the key has a password, for which nobody could be asked: openssl pkey writes it without one")
