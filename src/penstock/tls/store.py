"""What is in a key store, as PEM."""

from penstock.protocol.value import Value


class Key(Value):
    """A private key and its certificates as PEM. The key is encrypted with the password, unless that is empty."""

    pem: str
    password: str

    def __repr__(self) -> str:
        return "Key()"


class Store(Value):
    """`certificates` are all that are in it."""

    key: Key | None
    certificates: str
