"""Keys and certificates that listeners are to have: whether they can be used, before anybody is told that they are."""

from collections.abc import Mapping, Sequence

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import Layers, listener_texts
from penstock.protocol.value import HIDDEN
from penstock.tls.contexts import serving_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.stores import key_of


def check_keys(layers: Layers, listeners: Sequence[str], then: Mapping[str, str | None]) -> None:
    """`then` is what settings of the first layer change to. Reads files. Raises ConfigError."""
    (source, first), *rest = layers
    changed = {key: text for key, text in {**first, **then}.items() if text is not None}
    for listener in listeners:
        settings = listener_texts([(source, changed), *rest], listener, "ssl.")
        try:
            serving_context(settings, key_of(settings))
        except TlsConfigError as error:
            raise ConfigError(error.key, HIDDEN, f"what the listener {listener} can use: {error}") from None
