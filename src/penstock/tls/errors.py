"""A setting of TLS that cannot be used."""


class TlsConfigError(ValueError):
    """The text names the key, and what to do; secrets are not in it."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key
