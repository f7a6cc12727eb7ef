"""How long a producer with acks=all is held up by a kill -9 of one of three nodes: P12 without Kafka beside."""

from rich.console import Console

from bench.measure import Budget, Measure, measure
from bench.versus.questions.failover import ERRORS, FEW, GROWTH, HELD_UP, LOST, MANY, TWICE, VICTIMS, ask_one
from bench.versus.systems import PENSTOCK, Effort


def failover(runs: int) -> list[Measure]:
    """How long is a producer held up when a leader, or the active controller, is killed: 100 and 10,000 partitions?"""
    effort = Effort(runs, 1.0, Console())
    found = {count: ask_one(effort, PENSTOCK, count) for count in (FEW, MANY)}
    measures: list[Measure] = []
    for victim in VICTIMS:
        waits = {count: [sample[HELD_UP.name] for sample in samples[victim]] for count, samples in found.items()}
        name = f"{victim} killed"
        measures += [measure(f"producer held up, {name}, {count:,} partitions", "s", waits[count]) for count in waits]
        growth = [many / few for few, many in zip(waits[FEW], waits[MANY], strict=True)]
        measures.append(
            measure(f"with many partitions, of that with few, {name}", "×", growth, Budget(GROWTH.own or 0))
        )
    rounds = [sample for samples in found.values() for of_victim in samples.values() for sample in of_victim]
    for figure in (ERRORS, LOST, TWICE):
        measures.append(
            measure(f"{figure.name}, {len(rounds)} kills", "", [sum(one[figure.name] for one in rounds)], Budget(0))
        )
    return measures
