"""How all users of SCRAM look together, kept as they come and go: each log-in asks, and there may be very many."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TypeVar
from zlib import crc32

from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.protocol.sasl.scram import Form, ScramCredential, form_of

PLACES = 1_024
"""Among which names are spread, so that the first one is found without a look at all of them."""
MOST_FORMS = 64
"""That are told of."""

KeyT = TypeVar("KeyT", bound=Hashable)


class ScramLooks:
    __slots__ = ("_forms", "_names")

    def __init__(self) -> None:
        self._names: dict[int, dict[str, int]] = {}
        """By place: how many credentials each user has."""
        self._forms: dict[int, dict[Form, int]] = {}
        """By mechanism: how many credentials have each form."""

    def note(self, before: UserScramCredentialRecord | None, now: UserScramCredentialRecord | None) -> None:
        for record, change in ((before, -1), (now, 1)):
            if record is not None:
                _count(self._names.setdefault(_place(record.name), {}), record.name, change)
                _count(self._forms.setdefault(record.mechanism, {}), _form(record), change)

    def two_users(self) -> list[str]:
        """If there are as many: the same ones on all nodes, as long as these stay and none comes before them."""
        places = (self._names.get(place, {}) for place in range(PLACES))
        return list(islice((name for names in places for name in nsmallest(2, names)), 2))

    def forms(self, mechanism: int) -> Sequence[Form]:
        """Of users of that mechanism."""
        return nsmallest(MOST_FORMS, self._forms.get(mechanism, {}), lambda one: (one.iterations, one.salt_bytes))

    def copy(self) -> ScramLooks:
        other = ScramLooks()
        other._names = {place: dict(names) for place, names in self._names.items()}
        other._forms = {mechanism: dict(forms) for mechanism, forms in self._forms.items()}
        return other


def _place(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass")) % PLACES


def _form(record: UserScramCredentialRecord) -> Form:
    return form_of(ScramCredential(record.salt, b"", b"", record.iterations))


def _count(counts: dict[KeyT, int], key: KeyT, change: int) -> None:
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        del counts[key]
