"""What brokers of before Kafka 4.1 wrote of a consumer group's topics, in whose place there is a hash now."""

from tests.unit.coordinator.group.consumer.bench import AT_ONCE, GROUP, Bench

from penstock.coordinator.group.consumer.records import LEGACY
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.records import key_version_of


def test_what_earlier_brokers_wrote_of_topics_is_taken_away_at_the_next_epoch() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m1", "a")
    key = ConsumerRecord(GROUP, None, LEGACY).encode()[0]
    bench.shard.read(key, b"\0\0\0")
    bench.grow("a", 1)
    bench.beat("m1", 2)
    assert (key, None) in [record for append in bench.log for record in append.records]
    bench.restart()
    bench.grow("a", 1)
    bench.beat("m1", 3)
    assert LEGACY not in {key_version_of(one) for one, _ in bench.log[-1].records}
