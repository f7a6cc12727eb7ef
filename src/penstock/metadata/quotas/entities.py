"""Of whom a quota may be, and what it may limit (KIP-546): the rules by which the controller takes one.

An entity is a user, a client id, both, or an address; a name that is None stands for all that have no quota of their
own. The limits of an address are others than those of users and client ids.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final

from penstock.protocol.errors import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
IP_KEYS: Final = (CONNECTION_CREATION_RATE,)
_LARGEST_WHOLE: Final = {
    PRODUCER_BYTE_RATE: 2**63,
    CONSUMER_BYTE_RATE: 2**63,
    CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""These are whole numbers. The value of a quota is a float, which Java's largest long is not: who asks for that, as for
no limit, asks for 2**63, and Kafka takes it.
"""
MAX_NAME: Final = 1024
"""Characters. A client may have a longer id, and is counted with all whose ids begin so: they take memory."""

Entity = Mapping[str, str | None]
"""Names by type."""


def keys_of(entity: Entity) -> tuple[str, ...]:
    """What can be limited. Raises KafkaError INVALID_REQUEST for what is no entity."""
    problem = _problem(entity)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return IP_KEYS if IP in entity else CLIENT_KEYS


def check_value(key: str, value: float, keys: tuple[str, ...]) -> None:
    """Raises KafkaError INVALID_REQUEST."""
    problem = None
    if key not in keys:
        problem = f"Invalid configuration key {key}: {', '.join(keys)} can be limited here"
    elif not 0 < value < float("inf"):
        problem = f"Quota {key} must be greater than 0, and finite"
    elif key in _LARGEST_WHOLE and value > _LARGEST_WHOLE[key]:
        problem = f"Proposed value for {key} is too large: at most {_LARGEST_WHOLE[key]}"
    elif key in _LARGEST_WHOLE and value % 1.0 > 1e-6:
        problem = f"{key} cannot be a fractional value."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _problem(entity: Entity) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}; there are {', '.join(ENTITY_TYPES)}"
        if name == "":
            return f"Empty {kind} not supported; no name at all stands for the default"
        if name is not None and len(name) > MAX_NAME:
            return f"A {kind} of {len(name)} characters is too long: {MAX_NAME} are allowed"
    if IP in entity and len(entity) > 1:
        return "Invalid quota entity combination: an ip stands alone"
    address = entity.get(IP)
    return f"{address} is no IP address" if address is not None and not _is_address(address) else None


def canonical_address(text: str) -> str:
    """An address in one spelling, and that of an IPv4 host which came over IPv6 as IPv4 has it; other text as it is."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
