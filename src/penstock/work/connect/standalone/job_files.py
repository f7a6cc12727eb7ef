"""Files with the configuration of a connector: properties or JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class JobFileError(ValueError):
    pass


def read_job(path: Path, read_properties: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    """Properties, or JSON with or without `name` and `config` around it."""
    if path.suffix != ".json":
        return read_properties(path)
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise JobFileError(f"{path} cannot be read as JSON: {error}") from error
    inner = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(inner, dict):
        raise JobFileError(f"{path} is not a connector: an object with its keys, or with name and config")
    return {
        **{key: str(value) for key, value in inner.items()},
        "name": str(document.get("name", inner.get("name", ""))),
    }
