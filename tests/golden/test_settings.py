"""What each key and each option takes, and what comes of it: of connectors, and of Spark's reader and writer."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.golden.differences import changed

import penstock.work.connect
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.sink import sink_options
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import CLIENT_OPTIONS, SINK_OPTIONS, SOURCE_OPTIONS, read_options
from penstock.work.connect.config import ConfigKey

FOLDER: Final = Path(__file__).parent
VALUES: Final = (
    *("0", "1", "-1", "7", "x", "TRUE", "false", "64k", "90s", "2 min", "64q", "all", "none", "zstd", "error"),
    *("earliest", "latest", "committed", "read_committed", "exactly-once", "a, b,", "t[0-9]+"),
    *('{"t": {"0": 5}}', '{"t": {"0": -1}}', '{"t": {"0": -2}}', '{"t": {"0": -3}}', '{"t": {"0": "5"}}'),
    *('{"t": [1, 0]}', '{"t": ["0"]}', '{"t": 0}'),
)
SERVERS: Final = {"kafka.bootstrap.servers": "a:1"}
READS: Final = SERVERS | {"subscribe": "a"}


def outcomes(make: Callable[[str], Any], unset: Any, values: Sequence[str]) -> Iterator[str]:
    """What comes of each value; those of which the same comes stand together, and what comes of most stands last."""
    found: dict[str, list[str]] = {}
    for value in values:
        try:
            what = ", ".join(changed(make(value), unset)).replace(repr(value), "…") or "changes nothing"
        except PipelineError as error:
            what = "refused: " + str(error).replace(f"={value}:", "=…:").replace(f"{value!r} is", "… is")
        found.setdefault(what, []).append(value)
    most = max(found, key=lambda what: len(found[what]))
    for what, of in found.items():
        if what != most:
            yield f"  {' | '.join(of)}"
            yield f"    {what}"
    yield f"  {'anything' if len(found) == 1 else 'anything else'}"
    yield f"    {most}"


WAYS: Final[Mapping[str, tuple[Mapping[str, str], Callable[[Any], Any], Any]]] = {
    "batch": (READS, lambda given: source_options(given, streaming=False), SOURCE_OPTIONS),
    "stream": (READS, lambda given: source_options(given, streaming=True), SOURCE_OPTIONS),
    "stream of a group": (
        READS | {"kafka.group.id": "g"},
        lambda given: source_options(given, streaming=True),
        ("startingOffsets", "commitOffsets"),
    ),
    "sink": (SERVERS, sink_options, SINK_OPTIONS),
    "sink without waiting": (
        SERVERS | {"kafka.acks": "1"},
        sink_options,
        ("enable.idempotence", "penstock.sink.delivery"),
    ),
    "client": (READS, lambda given: source_options(given, streaming=False), CLIENT_OPTIONS),
}


def of_spark() -> Iterator[str]:
    for way, (beside, make, names) in WAYS.items():
        for name in names:
            others = {one: value for one, value in beside.items() if one.removeprefix("kafka.") != name}
            if name in ("subscribePattern", "assign"):
                others.pop("subscribe")
            yield f"{way}: {name}"
            yield from outcomes(partial(_made, make, others, name), make(read_options(beside)), VALUES)
            yield ""


def _made(make: Callable[[Any], Any], others: Mapping[str, str], name: str, value: str) -> Any:
    return make(read_options({**others, name: value}))


def of_connectors() -> Iterator[str]:
    for place, key in sorted(connect_keys().items()):
        says = [key.type, key.importance, *(["required"] if key.required else []), f"default {key.default!r}"]
        says += [f"one of {', '.join(key.choices)}"] if key.choices else []
        says += [f"at least {key.least}"] if key.least is not None else []
        says += ["in any case"] if key.any_case else []
        yield f"{place}: {', '.join(says)}"


def connect_keys() -> dict[str, ConfigKey]:
    """All that stand in a module, by its name and theirs."""
    found: dict[str, ConfigKey] = {}
    for module in sorted(pkgutil.walk_packages(penstock.work.connect.__path__, "penstock.work.connect."), key=_name):
        for value in vars(importlib.import_module(module.name)).values():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, ConfigKey) and one not in found.values():
                    found[f"{module.name.removeprefix('penstock.work.connect.')} {one.name}"] = one
    return found


def _name(module: pkgutil.ModuleInfo) -> str:
    return module.name


@pytest.mark.parametrize(("name", "lines"), [("spark_options.txt", of_spark), ("connect_keys.txt", of_connectors)])
def test_it_is_as_written(request: pytest.FixtureRequest, name: str, lines: Callable[[], Iterator[str]]) -> None:
    text = "\n".join(lines()).rstrip() + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / name).write_text(text, encoding="utf-8")
    assert text == (FOLDER / name).read_text(encoding="utf-8"), "pytest tests/golden --rewrite writes it anew"
