"""`penstock produce --value-schema`: lines of JSON become values by the latest schema of a registry's subject."""

import click

from penstock.cli.records.lines import LineFormatError, ParsedLine
from penstock.console.apart.decoding import Encode, encoder_of
from penstock.console.apart.schema import UnreadableError
from penstock.console.errors import ConsoleError
from penstock.console.schemas import SchemaRegistry


class BySchema:
    """Keys and values whose schema is None stay as they are."""

    def __init__(self, key: Encode | None, value: Encode | None) -> None:
        self._key, self._value = key, value

    @classmethod
    async def of(cls, url: str, key_schema: str | None, value_schema: str | None) -> "BySchema":
        """Asks the registry once; click.ClickException."""
        registry = SchemaRegistry(url)
        try:
            made = [subject and encoder_of(await registry.latest(subject)) for subject in (key_schema, value_schema)]
        except (ConsoleError, UnreadableError) as error:
            raise click.ClickException(str(error)) from None
        finally:
            registry.close()
        return cls(made[0] or None, made[1] or None)

    def made(self, line: ParsedLine) -> ParsedLine:
        """LineFormatError for what is no value of its schema."""
        try:
            return line.replace(key=_made(self._key, line.key), value=_made(self._value, line.value))
        except (UnreadableError, UnicodeDecodeError) as error:
            raise LineFormatError(f"it is no value of its schema: {error}") from None


def _made(encode: Encode | None, data: bytes | None) -> bytes | None:
    return data if encode is None or data is None else encode(data.decode())
