"""Which quota holds for a client: the most exact one that is set, in Kafka's order of eight.

| level | user      | client id | shared by                              |
| ----- | --------- | --------- | -------------------------------------- |
| 1     | its name  | its id    | the user's clients of that id          |
| 2     | its name  | default   | the user's clients, by id              |
| 3     | its name  | -         | all clients of the user                |
| 4     | default   | its id    | a user's clients of that id            |
| 5     | default   | default   | a user's clients, by id                |
| 6     | default   | -         | all clients of a user                  |
| 7     | -         | its id    | all clients of that id, of whatever user |
| 8     | -         | default   | all clients of one id                  |

Each limit is looked for by itself: a client may have one by level 1 and another one by level 8.
"""

from typing import Final, NamedTuple, TypeVar

from penstock.metadata.quotas.entities import CLIENT_ID, IP, USER, canonical_address
from penstock.metadata.security import quota_entity
from penstock.metadata.security_records import ClientQuotaRecord

_NOBODY: Final = -1
"""Stands where an entity has no name of this type."""
_DEFAULT: Final = None
Name = str | int | None
KeyT = TypeVar("KeyT")


class Share(NamedTuple):
    """Who share a limit: None stands for all. For an address, `user` is the address and `client_id` is None."""

    key: str
    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    value: float
    share: Share


class QuotaLimits:
    """The quotas of a cluster; only `apply` changes them."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Name, Name], float] = {}
        self._of_ips: dict[tuple[str, str | None], float] = {}

    def apply(self, record: ClientQuotaRecord) -> None:
        entity = dict(quota_entity(record))
        if IP in entity:
            address = entity[IP]
            _set(self._of_ips, (record.key, None if address is None else canonical_address(address)), record)
        else:
            _set(self._values, (record.key, entity.get(USER, _NOBODY), entity.get(CLIENT_ID, _NOBODY)), record)

    def __bool__(self) -> bool:
        return bool(self._values or self._of_ips)

    def of_client(self, key: str, user: str, client_id: str) -> Limit | None:
        values = self._values
        for one, other, share in (
            (user, client_id, (user, client_id)),
            (user, _DEFAULT, (user, client_id)),
            (user, _NOBODY, (user, None)),
            (_DEFAULT, client_id, (user, client_id)),
            (_DEFAULT, _DEFAULT, (user, client_id)),
            (_DEFAULT, _NOBODY, (user, None)),
            (_NOBODY, client_id, (None, client_id)),
            (_NOBODY, _DEFAULT, (None, client_id)),
        ):
            value = values.get((key, one, other))
            if value is not None:
                return Limit(value, Share(key, *share))
        return None

    def of_ip(self, key: str, address: str) -> Limit | None:
        """That of the address itself, or else of all that have none; each address has it for itself."""
        if not self._of_ips:
            return None
        address = canonical_address(address)
        value = self._of_ips.get((key, address), self._of_ips.get((key, _DEFAULT)))
        return None if value is None else Limit(value, Share(key, address, None))


def _set(values: dict[KeyT, float], key: KeyT, record: ClientQuotaRecord) -> None:
    if record.remove:
        values.pop(key, None)
    else:
        values[key] = record.value
