"""A password that no log, repr, traceback or plan shows: who needs the text asks for it by name."""

from penstock.protocol.value import HIDDEN, Value


class Secret(Value):
    """Equal secrets are equal values. `str` and `repr` hide the text."""

    text: str

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return HIDDEN


class SecretTexts(dict[str, str]):
    """Texts by name, as of keys, of which some are secret: what is shown has the names alone."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {HIDDEN}' for name in self)}}}"
