"""Options that a pipeline declares: as texts, and what is wrong with those of `format("penstock")`."""

import json
from collections.abc import Mapping
from typing import Final

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.sink import DELIVERIES, DELIVERY, sink_options
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import known_name, read_options
from penstock.pipeline.options.values import nearest
from penstock.pipeline.spec.pipeline import BOOTSTRAP, PENSTOCK, is_bootstrap

ISOLATION: Final = "isolation.level"
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


def with_default_isolation(options: Mapping[str, str]) -> dict[str, str]:
    """Of a source: pipelines read what is committed, unless they say something else."""
    says_it = any(known_name(name) == ISOLATION for name in options)
    return dict(options) if says_it else {**options, ISOLATION: "read_committed"}


def take_delivery(options: dict[str, str], kind: str) -> str | None:
    """Make the sink's `delivery` an option of `format("penstock")`; what is wrong with it, if anything."""
    delivery = options.pop("delivery", None)
    if delivery is None:
        return None
    if kind != PENSTOCK:
        return f"delivery is for topics, and the sink is {kind}."
    if delivery.lower() not in DELIVERIES:
        return f"delivery: {delivery} must be {' or '.join(DELIVERIES)}.{nearest(delivery.lower(), DELIVERIES)}"
    if any(known_name(name) == DELIVERY for name in options):
        return f"delivery says what {DELIVERY} says: leave one of them out."
    options[DELIVERY] = delivery
    return None


def as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def shown(value: object) -> str:
    """Enough of it to be found."""
    text = repr(value)
    return "empty" if value is None else text if len(text) < 40 else f"{text[:40]}…"
