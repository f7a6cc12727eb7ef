"""P9: how many records a second does Spark read through `format("penstock")`, and how many through `format("kafka")`?

Both read the same topic of one node, in the same session on two cores; the JVM connector is the published one.
"""

from bench.child import Child
from bench.load import LARGE, produce
from bench.node import running_node, scratch
from bench.topics import create_topic
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.spark_reads import reads
from bench.versus.systems import Effort

SIZES, COUNT = (100, 1000), 5_000_000
PARTITIONS = 2
LIMIT_S = 1800
FIGURES = [Figure(name, "records/s", "higher", bar=1.5) for name in ("count", "parquet")]


def spark(effort: Effort) -> list[Line]:
    """See the module."""
    lines = []
    with scratch() as directory, running_node() as broker:
        for size in SIZES:
            records, topic = effort.records(COUNT), f"spark-{size}"
            create_topic(broker.address, topic, PARTITIONS)
            produce(broker.address, topic, records, size, LARGE)
            effort.say(f"P9 {size} B: {effort.pairs} pairs in one session")
            samples = Child(reads, broker.address, topic, records, effort.pairs, directory).result(LIMIT_S)
            lines += lines_of(f"{size} B", FIGURES, samples)
    return lines
