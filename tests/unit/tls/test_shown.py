"""Which of the certificates that were shown hold no longer, however many connections there are."""

from __future__ import annotations

import datetime as dt
import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.tls import shown as shown_module
from penstock.tls.authority import new_authority, signed_by
from penstock.tls.faults import EXPIRED, REVOKED
from penstock.tls.revoked import identity_of
from penstock.tls.shown import ShownCertificates

if TYPE_CHECKING:
    from penstock.tls.layer import TlsLayer

DAY_MS = 86_400_000
NOW = dt.datetime.fromtimestamp(1_800_000_000, dt.UTC)
AUTHORITY = new_authority("a", NOW, 100)


def certificate(days: int) -> bytes:
    return ssl.PEM_cert_to_DER_cert(signed_by(AUTHORITY, "n", ["h"], NOW, days).certificate)


def test_certificates_are_read_once_and_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read those of ten thousand connections would hold the event loop for half a second."""
    now_ms, ended = round(NOW.timestamp() * 1000), list[tuple[str, str]]()
    keys = SimpleNamespace(revoked=frozenset())
    shown = ShownCertificates(cast("Any", keys), lambda: now_ms)
    revoked = certificate(9)
    for name, one in (("short", certificate(1)), ("revoked", revoked), ("long", certificate(9))):
        shown.add(cast("TlsLayer", name), one, lambda layer, fault: ended.append((cast("str", layer), fault)))
    for reads in ("expires_s", "identity_of"):
        monkeypatch.delattr(shown_module, reads)
    shown.look()
    assert ended == []
    keys.revoked = frozenset({identity_of(revoked)})
    now_ms += 2 * DAY_MS
    shown.look()
    assert ended == [("short", EXPIRED), ("revoked", REVOKED)]
    shown.lost(cast("TlsLayer", "short"))
    assert len(shown) == 2


@pytest.mark.parametrize(("days", "fault"), [(0, EXPIRED), (9, REVOKED)])
def test_what_does_not_hold_is_not_kept(days: int, fault: str) -> None:
    one = certificate(days)
    keys = SimpleNamespace(revoked=frozenset({identity_of(one)}))
    shown = ShownCertificates(cast("Any", keys), lambda: round(NOW.timestamp() * 1000) + 60_000)
    with pytest.raises(ValueError, match=fault):
        shown.add(cast("TlsLayer", "n"), one, lambda *_: None)
    assert len(shown) == 0
