"""P10: compressed batches: does the broker pass them through, or does it pay for what the clients compressed?"""

from functools import partial

from bench.load import LARGE, LARGE_FETCHES, create_topic, delete_topic, run
from bench.process import BrokerProcess
from bench.versus.lines import Figure, Line, lines_of
from bench.versus.systems import MB, Effort, Sample, both, in_turn

TITLE = "Compressed batches, 1000 B of text per record (a MB is a MB before compression)"
FIGURES = (
    Figure("produce MB/s", "MB/s", "higher"),
    Figure("produce CPU ms/MB", "ms", "lower"),
    Figure("consume MB/s", "MB/s", "higher"),
    Figure("consume CPU ms/MB", "ms", "lower"),
)
SIZE, COUNT = 1000, 300_000


def measured(broker: BrokerProcess, number: int, *, records: int, codec: str) -> Sample:
    """Produce to a new topic, consume it, delete it."""
    topic = f"{codec}-{number}"
    create_topic(broker.address, topic)
    settings: dict[str, str | int] = {**LARGE, "compression.type": codec, "text": 1}
    start = broker.cpu()
    sent = run("produce", broker.address, topic, records=records, size=SIZE, **settings)
    middle = broker.cpu()
    taken = run("consume", broker.address, topic, records=records, size=SIZE, **LARGE_FETCHES)
    end = broker.cpu()
    delete_topic(broker.address, topic)
    megabytes = records * SIZE / MB
    figures = (
        sent.mb_per_s,
        (middle.total - start.total) * 1e3 / megabytes,
        taken.mb_per_s,
        (end.total - middle.total) * 1e3 / megabytes,
    )
    return dict(zip((one.name for one in FIGURES), figures, strict=True))


def ask(effort: Effort) -> list[Line]:
    """Ask."""
    lines = []
    with both() as brokers:
        for codec in ("lz4", "zstd"):
            work = partial(measured, records=effort.records(COUNT), codec=codec)
            lines += lines_of(codec, FIGURES, in_turn(effort, f"P10 {codec}", brokers, work))
    return lines
