"""The transcript of files of pipelines: what each says otherwise than a plain one, or what is wrong with it."""

from collections.abc import Callable, Iterable, Iterator

import yaml
from tests.golden.differences import changed

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import BOOTSTRAP, PipelineSpec

PLAIN = {"source": {"kafka.bootstrap.servers": "a:1", "subscribe": "clicks"}, "sink": {"topic": "out"}}


def handle(line: str) -> Iterator[str]:
    """The parts of a line take the place of those of the plain file; what is null there is left out."""
    parts = {**PLAIN, **yaml.safe_load(f"{{{line}}}")}
    try:
        spec = pipeline_spec("job", {name: part for name, part in parts.items() if part is not None})
    except PipelineError as error:
        yield from (f"| {problem.removeprefix('Pipeline job: ')}" for problem in str(error).splitlines())
        return
    yield from (one for one in changed(spec, pipeline_spec("job", PLAIN)) if one != "name='job'")
    yield f"sinks: {', '.join(f'{sink.name} at {spec.checkpoint_of(sink)}' for sink in spec.running)}"


def test_files(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("pipeline_files.txt", handle)


def test_one_sink_of_several_runs_alone() -> None:
    parts = PLAIN | {"sink": [{"topic": "one"}, {"topic": "two"}]}
    spec = pipeline_spec("job", parts)
    assert [sink.name for sink in spec.only(["two"]).running] == ["two"]
    assert [sink.name for sink in spec.running] == ["one", "two"]
    for served in (moved(spec, "b:2"), moved(spec.only(["one"]), "b:2")):
        assert served == {"b:2"}


def moved(spec: PipelineSpec, servers: str) -> set[str]:
    there = spec.with_bootstrap_servers(servers)
    every = [*(one.options for one in there.sources.values()), *(one.options for one in there.sinks)]
    return {options[BOOTSTRAP] for options in every}
