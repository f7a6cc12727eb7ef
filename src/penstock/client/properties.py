"""Settings from text, under Kafka's own names: `linger.ms=20`, `acks=all`, `auto.offset.reset=earliest`."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

from penstock.client.durations import parse_duration_ms
from penstock.client.names import CANONICAL_BOOTSTRAP, USE_ALL_DNS_IPS
from penstock.client.security import PREFIXES, PROTOCOLS, WITH_SASL, Security
from penstock.client.settings import ACKS_ALL, BY_DURATION, REBOOTSTRAP, ClientSettings
from penstock.protocol.compression import Compression

Settings = TypeVar("Settings", bound=ClientSettings)
NO_PROPERTIES = ("max_answer_bytes", "now_ms", "random", "background", "partitioner_settings", "security")
OF_PARTITIONER = "partitioner."
CHOICES = {
    "auto_offset_reset": ("earliest", "latest", "none"),
    "group_protocol": ("classic", "consumer"),
    "client_dns_lookup": (USE_ALL_DNS_IPS, CANONICAL_BOOTSTRAP),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "metadata_recovery_strategy": (REBOOTSTRAP, "none"),
    "security_protocol": PROTOCOLS,
    "share_acknowledgement_mode": ("implicit", "explicit"),
    "share_acquire_mode": ("batch_optimized", "record_limit"),
}


def with_properties(settings: Settings, properties: Mapping[str, str]) -> Settings:
    """A copy of the settings with these properties; ValueError names key and value, and what is allowed.

    Where there is a partitioner of one's own, what begins with `partitioner.` is for that.
    """
    defaults = {name: getattr(settings, name) for name in settings.__fields__ if name not in NO_PROPERTIES}
    has_partitioner = properties.get("partitioner.class") or defaults.get("partitioner_class")
    changed: dict[str, object] = {}
    of_partitioner: dict[str, str] = {}
    of_security = dict(settings.security.properties)
    for key, text in properties.items():
        name = key.replace(".", "_")
        if name in defaults:
            word = text.strip().upper() if name == "security_protocol" else text.strip()
            changed[name] = _parse(key, name, word, defaults[name])
        elif key.startswith(PREFIXES):
            of_security[key] = text
        elif has_partitioner and key.startswith(OF_PARTITIONER):
            of_partitioner[key] = text
        else:
            raise _unknown(key, name, defaults)
    if of_partitioner:
        changed["partitioner_settings"] = of_partitioner
    if of_security != settings.security.properties:
        changed["security"] = Security(of_security)
    with_them = settings.replace(**changed)
    if with_them.security_protocol in WITH_SASL:
        with_them.security.check_credentials()
    return with_them


def _unknown(key: str, name: str, known: Mapping[str, object]) -> ValueError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0].replace('_', '.')}?" if near else ""
    return ValueError(f"{key} is not a setting of this client{hint}")


def as_properties(settings: ClientSettings) -> dict[str, str]:
    """All settings as text under Kafka's names: what `with_properties` reads. Empty stands for none."""
    return {
        name.replace("_", "."): _text(name, getattr(settings, name))
        for name in settings.__fields__
        if name not in NO_PROPERTIES
    }


def _text(name: str, value: object) -> str:
    if name == "acks":
        return "all" if value == ACKS_ALL else str(value)
    if isinstance(value, Compression):
        return value.name.lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _parse(key: str, name: str, text: str, default: object) -> object:
    if name == "auto_offset_reset" and text.startswith(f"{BY_DURATION}:"):
        return _parse_reset(key, text)
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"{key}={text}: allowed are {', '.join(CHOICES[name])}")
    if name == "acks":
        return _parse_acks(key, text)
    if isinstance(default, Compression):
        return parse_compression(text)
    if isinstance(default, bool):
        return _parse_bool(key, text)
    if isinstance(default, int) or name == "compression_level":
        return _parse_int(key, text)
    if isinstance(default, tuple):
        return tuple(item.strip() for item in text.split(",") if item.strip())
    return text


def _parse_reset(key: str, text: str) -> str:
    try:
        parse_duration_ms(text.partition(":")[2])
    except ValueError as error:
        raise ValueError(f"{key}={text}: {error}") from None
    return text


def parse_compression(text: str) -> Compression:
    try:
        return Compression[text.upper()]
    except KeyError:
        names = ", ".join(codec.name.lower() for codec in Compression)
        raise ValueError(f"compression.type={text}: allowed are {names}") from None


def _parse_acks(key: str, text: str) -> int:
    if text not in ("all", "-1", "0", "1"):
        raise ValueError(f"{key}={text}: allowed are 0, 1 and all")
    return ACKS_ALL if text == "all" else int(text)


def _parse_bool(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{key}={text}: allowed are true and false")
    return text.lower() == "true"


def _parse_int(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{key}={text}: a whole number is needed") from None
