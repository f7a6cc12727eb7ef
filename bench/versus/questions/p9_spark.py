"""P9: how many records a second does Spark read through `format("penstock")`, and how many through `format("kafka")`?

Both read the same topic of one node, in the same session on two cores; the JVM connector is the published one.
"""

from bench.child import Child
from bench.load import LARGE, create_topic, run
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import PENSTOCK, Effort, running, scratch

TITLE = "Spark reads a topic: records a second, JVM connector against ours"
SIZES, COUNT = (100, 1000), 5_000_000
PARTITIONS = 2
LIMIT_S = 1800


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    lines = []
    with scratch() as directory, running(PENSTOCK, directory / "node") as broker:
        for size in SIZES:
            records, topic = effort.records(COUNT), f"spark-{size}"
            create_topic(broker.address, topic, PARTITIONS)
            run("produce", broker.address, topic, records=records, size=size, **LARGE)
            effort.say(f"P9 {size} B: {effort.pairs} pairs in one session")
            words = (broker.address, topic, records, effort.pairs, directory)
            rates = Child("bench.versus.spark_reads", *words).result(LIMIT_S)
            figures = [Figure(name, "records/s", "higher", bar=1.5) for name in ("count", "parquet")]
            samples = {
                name: [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
                for name, found in rates.items()
            }
            lines += lines_of(f"{size} B", figures, samples)
    return lines
