"""Files of rules in TOML, with a table `[[rule]]` for each: those of policies, and of access rules."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def rule_tables(data: bytes, known: Sequence[str], *, most_bytes: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each rule, with its name in errors. Raises ValueError for what is too long, no table, or has other keys."""
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes} bytes")
    document = tomllib.loads(data.decode())
    check_keys("the file", document, ("rule",))
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not tables:
        raise ValueError("it has no rule: each begins with [[rule]]")
    for number, table in enumerate(tables, 1):
        check_keys(f"rule {number}", table, known)
        yield f"rule {number}", table


def check_keys(where: str, table: object, known: Sequence[str]) -> None:
    """ValueError for the first key that is not known, with the one that is nearly it."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table: each rule begins with [[rule]]")
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"
            raise ValueError(f"{where} has no key {key}; {hint}")
