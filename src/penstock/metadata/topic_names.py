"""What a topic may be called."""

MAX_LENGTH = 249
"""The name and the partition's index make a folder's name, which file systems limit to 255."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_error(name: str) -> str | None:
    """The words are for users; None for a valid name."""
    if not name:
        return "A topic needs a name, this one is empty"
    if name in (".", ".."):
        return f"A topic cannot be called '{name}'"
    if len(name) > MAX_LENGTH:
        return f"The topic name has {len(name)} characters, more than {MAX_LENGTH}: '{name[:40]}…'"
    if not _LEGAL.issuperset(name):
        return f"The topic name '{name}' has a character other than ASCII letters, digits, '.', '_' and '-'"
    return None


def metric_name(name: str) -> str:
    """Names of metrics cannot tell '.' and '_' apart, so topics that differ only there collide."""
    return name.replace(".", "_")
