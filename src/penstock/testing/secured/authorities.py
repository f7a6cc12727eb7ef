"""The authorities of a secured cluster on the disk: one signs, and all are trusted that are there.

    authority/1/authority.pem      its certificate
    authority/1/authority.key      its key
    authority/signs                the number of the one that signs, when there are several

There are two while one is replaced. Each step is a file that appears or goes: it may be interrupted and repeated.
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.log.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tls.authority import Shown, Signed

CERTIFICATE: Final = "authority.pem"
KEY: Final = "authority.key"
SIGNS: Final = "signs"
AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 365
CRYPTOGRAPHY_MISSING: Final = "certificates are made with the package cryptography: pip install 'penstock[tls]'"


class AuthorityError(Exception):
    """One line that names cause and cure."""


class Authorities:
    def __init__(self, folder: Path, now: dt.datetime) -> None:
        """Raises AuthorityError where the package is missing that makes certificates."""
        self._folder = folder
        self._now = now
        try:
            import penstock.tls.authority as tool
        except ImportError:
            raise AuthorityError(CRYPTOGRAPHY_MISSING) from None
        self._tool = tool

    @property
    def numbers(self) -> list[int]:
        """From the oldest to the newest. An authority without its certificate was not finished, and is none."""
        if not self._folder.is_dir():
            return []
        found = (one.name for one in self._folder.iterdir() if (one / CERTIFICATE).is_file())
        return sorted(int(name) for name in found if name.isdecimal())

    @property
    def signing(self) -> int:
        """The number of the authority that signs. Raises AuthorityError where there is none."""
        numbers = self.numbers
        if not numbers:
            raise AuthorityError(f"{self._folder} has no authority: `penstock security init` makes one")
        marker = self._folder / SIGNS
        named = int(marker.read_text()) if marker.is_file() else numbers[0]
        return named if named in numbers else numbers[0]

    def add(self) -> int:
        """A new one, which is trusted from now on, and signs nothing yet."""
        number = max(self.numbers, default=0) + 1
        folder = self._folder / str(number)
        if folder.exists():  # was not finished
            shutil.rmtree(folder)
        made = self._tool.new_authority(f"penstock-authority-{number}", self._now, AUTHORITY_DAYS)
        Disk().make_directory(str(folder), parents=True)
        write(folder / KEY, made.key)
        write(folder / CERTIFICATE, made.certificate)
        return number

    def let_sign(self, number: int) -> None:
        write(self._folder / SIGNS, f"{number}\n")

    def keep_only(self, number: int) -> None:
        """The others are trusted no more, and their keys are gone."""
        for other in self._folder.iterdir():
            if other.is_dir() and other.name != str(number):
                (other / CERTIFICATE).unlink(missing_ok=True)
                shutil.rmtree(other)

    def certificate(self, number: int) -> str:
        return (self._folder / str(number) / CERTIFICATE).read_text(encoding="ascii")

    @property
    def trusted(self) -> str:
        """The certificates of all."""
        return "".join(map(self.certificate, self.numbers))

    def sign(self, name: str, hosts: Sequence[str], days: int, number: int | None = None) -> Signed:
        """A new key with a certificate, by the one that signs or by another."""
        number = self.signing if number is None else number
        folder = self._folder / str(number)
        key = (folder / KEY).read_text(encoding="ascii")
        signer = self._tool.Signed(key, self.certificate(number))
        if self.shown(signer.certificate).ends <= self._now + dt.timedelta(days=1):
            raise AuthorityError(
                "the authority's own certificate ends: `penstock security rotate-ca` makes another one"
            )
        return self._tool.signed_by(signer, name, hosts, self._now, days)

    def has_signed(self, number: int, certificate: str) -> bool:
        return self._tool.has_signed(self.certificate(number), certificate)

    def shown(self, certificate: str) -> Shown:
        """Raises AuthorityError for what is no certificate."""
        try:
            return self._tool.shown(certificate)
        except ValueError as error:
            raise AuthorityError(f"a certificate cannot be read: {error}") from None


def write(path: Path, text: str) -> None:
    """All at once, durable, and for nobody else's eyes."""
    Disk().replace_file(str(path), text.encode(), durable=True)
