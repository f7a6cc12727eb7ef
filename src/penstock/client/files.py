"""Settings from a file of properties, as Java's clients have them: `client.properties`.

Values may stand elsewhere (`config.providers`).
"""

from pathlib import Path
from typing import Final

from penstock.client.properties import Settings, with_properties
from penstock.client.providers import resolved, told
from penstock.metadata.configs.pairs import decode_properties

SERVERS: Final = "bootstrap.servers"


def from_file(path: Path | str, defaults: Settings) -> tuple[str, Settings]:
    """The addresses in it, and the settings: those of the file go before `defaults`.

    OSError: it cannot be read. ValueError names a key that is missing, or that cannot be used.
    """
    given = decode_properties(Path(path).read_bytes())
    properties = resolved(given)
    servers = properties.pop(SERVERS, "")
    if not servers:
        raise ValueError(f"{path}: {SERVERS} is missing")
    try:
        return servers, with_properties(defaults, properties)
    except ValueError as error:
        raise ValueError(told(str(error), properties, given)) from None
