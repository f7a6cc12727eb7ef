"""What was measured, kept as JSON: one file per question and kind of processor, so that each can be asked again alone.

A bar that is met on one processor may be missed on another, so none writes over the other's file.
"""

import json
import re
import statistics
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.measure import machine
from bench.versus.kafka import java_version, version_of
from bench.versus.systems import Figure, Line

FOLDER = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    title: str
    command: str
    when: str
    machine: dict[str, Any]
    lines: list[Line]


def answered(question: str, title: str, command: str, lines: list[Line]) -> Answer:
    versions = {
        "kafka": version_of("kafka", "kafka_2.13"),
        "spark-sql-kafka": version_of("spark", "spark-sql-kafka-0-10_2.13"),
        "pyspark": version("pyspark"),
        "java": java_version(),
    }
    when = datetime.now(UTC).isoformat(timespec="minutes")
    return Answer(question, title, command, when, machine() | versions, [replace(line, when=when) for line in lines])


def among_others(answer: Answer) -> Answer:
    """With other cases' lines from the file of the question."""
    path = path_of(answer)
    if not path.exists():
        return answer
    new = {(line.case, line.figure.name): line for line in answer.lines}
    old = [new.pop((line.case, line.figure.name), line) for line in load(path).lines]
    return replace(answer, lines=[*old, *new.values()])


def save(answer: Answer) -> None:
    """Medians and ratios stand beside the runs for human readers."""
    path = path_of(answer)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = asdict(answer)
    for written, line in zip(document["lines"], answer.lines, strict=True):
        written["medians"] = {
            name: statistics.median(values)
            for name, values in (("kafka", line.kafka), ("penstock", line.penstock), ("bare", line.bare))
            if values
        }
        written |= {"ratio": line.ratio, "ratios": line.ratios, "verdict": line.verdict}
    path.write_text(json.dumps(document, indent=1) + "\n")


def path_of(answer: Answer) -> Path:
    """In the folder of the kind of processor: `amd-epyc` for "AMD EPYC"."""
    processor: str = answer.machine["processor"]
    return FOLDER / re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-") / f"{answer.question}.json"


def load_all(questions: list[str]) -> list[Answer]:
    """Existing answers in the order of the questions, for each kind of processor."""
    paths = [path for question in questions for path in sorted(FOLDER.glob(f"*/{question}.json"))]
    return [load(path) for path in paths]


def load(path: Path) -> Answer:
    document = json.loads(path.read_text())
    lines = [
        Line(
            one["case"],
            Figure(**one["figure"]),
            tuple(one["kafka"]),
            tuple(one["penstock"]),
            tuple(one["bare"]),
            one.get("when", document["when"]),
        )
        for one in document.pop("lines")
    ]
    return Answer(**document, lines=lines)
