"""SCRAM credentials as `--add-scram` names them, in the form of kafka-storage.sh (RFC 5802, KIP-900).

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
"""

from base64 import b64decode
from collections.abc import Callable

from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.protocol.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES


def parse_credential(text: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """`random_bytes` draws a salt where none is given. Raises ValueError."""
    mechanism, separator, rest = text.strip().partition("=")
    if mechanism not in MECHANISMS or not separator:
        raise ValueError(f"it begins with {' or '.join(f'{name}=' for name in MECHANISMS)}")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError("what follows the mechanism stands in [ and ]")
    given = _components(rest[1:-1])
    name, iterations = given.pop("name", ""), _iterations(given.pop("iterations", str(MIN_ITERATIONS)))
    salt = _decoded("salt", given.pop("salt")) if "salt" in given else None
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    if given:
        raise ValueError(f"{', '.join(given)}: known are name, password, iterations, salt and saltedpassword")
    if not name:
        raise ValueError("name is missing")
    if (password is None) == (salted_text is None):
        raise ValueError("give one of password and saltedpassword")
    if salted_text is not None and salt is None:
        raise ValueError("saltedpassword goes with salt")
    found = MECHANISMS[mechanism]
    salt = random_bytes(SALT_BYTES) if salt is None else salt
    if salted_text is not None:
        salted = _decoded("saltedpassword", salted_text)
    else:
        salted = found.salted(password or "", salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=found.number,
        salt=salt,
        stored_key=found.stored_key(salted),
        server_key=found.server_key(salted),
        iterations=iterations,
    )


def _components(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for component in text.split(","):
        name, separator, value = component.partition("=")
        if not separator:
            raise ValueError(f"{component!r} is not name=value")
        is_quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
        given[name.strip()] = value[1:-1] if is_quoted else value
    return given


def _iterations(text: str) -> int:
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise ValueError(f"iterations is a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _decoded(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"{name} is base64") from None
