"""Which addresses and files of OAuth may be used at all: those that stand in the environment.

Settings may come from somebody who may not read the files of this machine, or reach its network: who makes a connector,
for one. Kafka has system properties of Java for that, without a default (CVE-2025-27817).
"""

import os
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

URLS: Final = "PENSTOCK_OAUTHBEARER_ALLOWED_URLS"
FILES: Final = "PENSTOCK_OAUTHBEARER_ALLOWED_FILES"
"""In the environment: what is allowed, with commas between. Kafka's `org.apache.kafka.sasl.oauthbearer.allowed.urls`
and `.files`."""
SCHEMES: Final = ("http", "https", "file")


def allowed_url(key: str, url: str) -> SplitResult:
    """ValueError names key and cure."""
    parts = _split(key, url)
    if url not in _listed(URLS):
        raise ValueError(f"{key}={url} is not in {URLS}: set that in the environment, with commas between addresses")
    return parts


def allowed_file(key: str, name: str) -> Path:
    """ValueError names key and cure."""
    path = Path(name).absolute()
    if str(path) not in _listed(FILES):
        raise ValueError(f"{key}={path} is not in {FILES}: set that in the environment, with commas between files")
    return path


def _split(key: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{key}={url} is no address: {error}") from None
    is_whole = bool(parts.path) if parts.scheme == "file" else bool(parts.hostname)
    if parts.scheme not in SCHEMES or not is_whole or any(one <= " " or one == "\x7f" for one in url):
        raise ValueError(f"{key}={url} is no address of {', '.join(SCHEMES)}")
    return parts


def _listed(variable: str) -> set[str]:
    return {one.strip() for one in os.environ.get(variable, "").split(",")} - {""}
