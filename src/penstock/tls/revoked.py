"""Which certificates their authorities have revoked: lists (CRL, RFC 5280), read from their DER.

OpenSSL checks the lists and their signatures when a connection begins. What stands here is for connections that are
there when a list comes, by the issuer and the number of the certificate.
"""

from typing import Final, NamedTuple

from penstock.tls.certificates import DAMAGED, elements, field_of, first

_INTEGER, _SEQUENCE = 0x02, 0x30
"""Tags."""
_NUMBER, _ISSUER = 0, 2
"""Places among the fields of a certificate, behind the version."""
_AFTER_SIGNATURE: Final = 1


class Identity(NamedTuple):
    """Of a certificate: the name of who signed it, and the number that it has there, as DER."""

    issuer: bytes
    number: bytes


def identity_of(certificate: bytes) -> Identity:
    """Of a certificate as DER. ValueError if it is damaged."""
    return Identity(field_of(certificate, _ISSUER).whole, field_of(certificate, _NUMBER).whole)


def revoked_by(crl: bytes) -> frozenset[Identity]:
    """What a list as DER names. ValueError if it is damaged."""
    fields = list(elements(first(first(crl).content).content))
    fields = fields[1:] if fields and fields[0].tag == _INTEGER else fields
    if len(fields) <= _AFTER_SIGNATURE:
        raise ValueError(DAMAGED)
    issuer = fields[_AFTER_SIGNATURE].whole
    rows = next((one.content for one in fields[_AFTER_SIGNATURE + 1 :] if one.tag == _SEQUENCE), b"")
    return frozenset(Identity(issuer, first(row.content).whole) for row in elements(rows))
