"""What is wrong with the options of `format("penstock")` that a pipeline declares."""

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
