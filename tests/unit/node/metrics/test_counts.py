"""What a node counts while it serves: totals that never fall, topics that share an entry, requests that wait."""

from penstock.node.metrics.counts import ApiCounts, NodeCounts, TopicCounts
from penstock.node.metrics.distribution import Distribution


def test_a_topic_that_goes_leaves_its_numbers_in_the_total() -> None:
    topics = TopicCounts()
    first, second = topics.enter("orders"), topics.enter("orders")
    assert first is second
    first.bytes_in, topics.enter("payments").bytes_in = 100, 7
    topics.leave("orders", first)
    assert topics.numbers("bytes_in") == (107, {"orders": 100, "payments": 7})
    topics.leave("orders", second)
    assert topics.numbers("bytes_in") == (107, {"payments": 7})
    topics.enter("orders").bytes_in = 1
    assert topics.numbers("bytes_in") == (108, {"payments": 7, "orders": 1})


def test_topics_beyond_the_limit_share_an_entry() -> None:
    topics = TopicCounts(most=1)
    topics.enter("a").bytes_in = 1
    third = topics.enter("c")
    assert topics.numbers("bytes_in") == (1, {"a": 1})
    for topic in ("b", "c"):
        traffic = topics.enter(topic)
        traffic.bytes_in += 10
        traffic.produces += 1
    assert topics.numbers("bytes_in") == (21, {"a": 1, "other": 20})
    topics.leave("c", third)
    assert topics.numbers("bytes_in")[0] == 21


def test_what_waits_is_not_answered() -> None:
    api = ApiCounts(versions=5)
    api.waiting += 1
    assert (api.all_waiting, api.count, api.times.count) == (1, 0, 0)
    api.waiting -= 1
    api.done(3, 1_000_000)
    api.done(4, 2_000_000)
    api.done(4, 2_000_000)
    assert (api.all_waiting, api.count, api.by_version()) == (0, 3, {3: 1, 4: 2})
    assert (api.times.count, api.times.sum) == (3, 5.0)


def test_a_request_is_observed_as_a_distribution_observes() -> None:
    api, distribution = ApiCounts(versions=2), Distribution(per_unit=1_000_000)
    for number, took_ns in enumerate((0, 1, 255, 256, 10**9, (1 << 63) - 1)):
        api.done(number % 2, took_ns)
        distribution.observe(took_ns)
    assert api.times.buckets == distribution.buckets
    assert (api.times.largest, api.times.total) == (distribution.largest, distribution.total)


def test_the_sizes_of_requests_are_told_as_a_distribution() -> None:
    api, distribution = ApiCounts(), Distribution()
    for size in (0, 1, 127, 128):
        api.sizes[size.bit_length()] += 1
        api.total_bytes += size
        distribution.observe(size)
    assert api.request_sizes.buckets == distribution.buckets
    assert (api.request_sizes.sum, api.request_sizes.quantile(1)) == (256, 255)


def test_fetches_of_nodes_are_counted_apart() -> None:
    counts = NodeCounts()
    fetch = counts.api(1, 18, splits=True)
    assert counts.api(1, 18) is fetch
    fetch.of_nodes.waiting += 1
    fetch.waiting += 1
    fetch.of_nodes.done(17, 5)
    assert (fetch.waiting, fetch.of_nodes.waiting, fetch.all_waiting, fetch.count) == (1, 1, 2, 0)
    assert counts.api(3, 13).of_nodes is counts.api(3, 13)


def test_all_counts_begin_at_nothing() -> None:
    node = NodeCounts()
    assert (node.isr_shrinks, node.isr_expands, node.isr_failures) == (0, 0, 0)
    listener = node.listener("PLAINTEXT")
    assert {name: getattr(listener, name) for name in listener.__slots__} == dict.fromkeys(listener.__slots__, 0)
