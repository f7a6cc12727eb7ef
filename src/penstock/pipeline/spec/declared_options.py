"""Options that a pipeline declares: as texts, and what is wrong with those of `format("penstock")`."""

import json
from typing import Final

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.sink import sink_options
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.pipeline.spec.pipeline import BOOTSTRAP, is_bootstrap

ANY_SERVERS: Final = {BOOTSTRAP: "localhost:9092"}
"""Stands in where none are given: the command line may give them."""


def wrong_options(options: dict[str, str], *, is_sink: bool | None = None) -> PipelineError | None:
    """What is wrong with their names, and with the values for a sink or a source if it is said which."""
    servers = {} if any(is_bootstrap(option) for option in options) else ANY_SERVERS
    try:
        read = read_options(options | servers)
        if is_sink:
            sink_options(read)
        elif is_sink is not None:
            source_options(read, streaming=True)
    except PipelineError as error:
        return error
    return None


def as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def shown(value: object) -> str:
    """Enough of it to be found."""
    text = repr(value)
    return "empty" if value is None else text if len(text) < 40 else f"{text[:40]}…"
