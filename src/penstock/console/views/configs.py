"""Configurations as rows. A sensitive value never comes so far: brokers do not tell it."""

from collections.abc import Sequence
from typing import Any

from penstock.client.admin.configs import DYNAMIC_SOURCES, ConfigEntry


def config_rows(entries: Sequence[ConfigEntry]) -> list[dict[str, Any]]:
    """What was changed comes first."""
    return [
        {
            "name": one.name,
            "value": None if one.sensitive else one.value,
            "sensitive": one.sensitive,
            "source": one.source.name,
            "changed": one.source in DYNAMIC_SOURCES,
            "read_only": one.read_only,
            "about": one.documentation,
        }
        for one in sorted(entries, key=lambda one: (one.source not in DYNAMIC_SOURCES, one.name))
    ]
