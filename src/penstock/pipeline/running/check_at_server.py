"""What is wrong with a pipeline where its queries are to be at a server of Spark Connect, which plans it."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pyspark.errors import PySparkException

from penstock.pipeline.errors import NO_ANSWER, PipelineError
from penstock.pipeline.running.check import problems_of
from penstock.pipeline.running.run import in_a_sentence
from penstock.pipeline.running.server_session import apply, open_session, refused_settings
from penstock.pipeline.server_address import server_address
from penstock.pipeline.spec.pipeline import PENSTOCK, PipelineSpec
from penstock.pipeline.spec.user_code import first_line

CHECK_WITHIN_S: Final = 5.0


def problems_at(
    server: str,
    settings: Mapping[str, str],
    load: Callable[[], PipelineSpec],
    told: Callable[[PipelineSpec], None],
) -> list[str]:
    """As that server plans the pipeline: one sentence per problem. PipelineError where it does not answer."""
    place = server_address(server).place
    session = open_session(server, str(uuid.uuid4()), CHECK_WITHIN_S)
    try:
        with in_a_sentence(None):
            found = refused_settings(session, settings)
            if not found:
                apply(session, settings)
            spec = load()
            told(spec)
            return [*found, *problems_of(session, spec), *_without_source(session, spec, place)]
    except PipelineError as error:
        if str(error) != NO_ANSWER:
            raise
        raise PipelineError(f"{place}: {error}") from error
    finally:
        with suppress(PySparkException):
            session.client.release_session()
        session.client.close()


def _without_source(session: Any, spec: PipelineSpec, place: str) -> Iterator[str]:
    """Whether topics can be read and written there; of a topic nothing is asked."""
    formats = {source.format for source in spec.sources.values()} | {sink.format for sink in spec.sinks}
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    try:
        if PENSTOCK in formats:
            session.readStream.format(PENSTOCK).options(**options).load().isStreaming  # noqa: B018 - a look
    except PySparkException as error:
        yield (
            f"the server at {place} cannot read and write topics ({first_line(str(error))}): install where it and its "
            "executors run: pip install 'penstock[connector]'"
        )
